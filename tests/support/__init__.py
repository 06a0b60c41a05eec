"""What the tests share: processes of brokers, drivers of stock clients, Java's tools."""
