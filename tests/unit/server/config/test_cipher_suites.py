"""Names of cipher suites, judged by OpenSSL and the numbers that IANA gave them."""

from __future__ import annotations

import ssl

import pytest

from kavka.server.config.cipher_suites import TLS_1_3, openssl_name

NUMBERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": 0xC02B,
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": 0xC030,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": 0xC027,
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": 0xC024,
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA8,
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": 0x009E,
    "TLS_RSA_WITH_AES_256_GCM_SHA384": 0x009D,
    "TLS_RSA_WITH_AES_128_CBC_SHA": 0x002F,
    "TLS_RSA_WITH_AES_256_CBC_SHA256": 0x003D,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_openssl_knows_them(name: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(f"{openssl_name(name)}:@SECLEVEL=0")
    chosen = [cipher for cipher in context.get_ciphers() if cipher["name"] not in TLS_1_3]
    assert [cipher["id"] & 0xFFFF for cipher in chosen] == [NUMBERS[name]]


@pytest.mark.parametrize("name", ["", "AES128-SHA", "TLS_RSA_WITH_NULL_SHA", TLS_1_3[0]])
def test_others_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        openssl_name(name)
