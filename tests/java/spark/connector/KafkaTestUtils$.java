package org.apache.spark.sql.kafka010;

/** What Scala asks for the values of arguments that are left out. */
public final class KafkaTestUtils$ {
    public static final KafkaTestUtils$ MODULE$ = new KafkaTestUtils$();

    public scala.collection.immutable.Map<String, Object> $lessinit$greater$default$1() {
        return scala.collection.immutable.Map$.MODULE$.empty();
    }

    public boolean $lessinit$greater$default$2() {
        return false;
    }
}
