"""Certificates in a stack file: real ones, made here, since those of a file would expire."""

from __future__ import annotations

import re

import pytest

from components.config import ConfigError, parse
from tests.tls_server import Authority
from tests.unit.config.examples import GOOD, changed


def test_authorities_are_taken_with_any_line_ends():
    both = Authority(name="one").pem + Authority(name="two").pem
    assert parse(GOOD | {"certificates": both.replace("\n", "\r\n").rstrip()}).certificates == both


@pytest.mark.parametrize(
    ("made", "allowed"),
    [
        (Authority(days=-1, name="old root").pem, "that of old root did on"),
        (Authority(authority=False).pem, "certificates of authorities"),
        (2 * Authority().pem, "each certificate once"),
        (Authority().pem.replace("MII", "AII", 1).replace("MIIB", "AIIB"), "OpenSSL can read"),
        (Authority().pem.replace("\n", " "), "`openssl x509 -in FILE`"),
        ("".join(Authority(name=f"root {number}").pem for number in range(40)), "at most 20,000 characters"),
        (Authority().pem.replace("MII", "M\u00a0II", 1), "`openssl x509 -in FILE`"),
        (Authority().pem.replace("\n", "\u2028"), "`openssl x509 -in FILE`"),
    ],
    ids=[
        "expired",
        "a server's own",
        "twice",
        "damaged",
        "of one line",
        "a whole bundle",
        "a strange space",
        "strange lines",
    ],
)
def test_what_vouches_for_nobody_is_refused(made: str, allowed: str):
    with pytest.raises(ConfigError) as caught:
        parse(GOOD | {"certificates": made})
    assert caught.value.what == "tidemill:certificates"
    assert allowed in caught.value.allowed


def test_certificates_that_user_data_has_no_room_for_are_refused():
    few = "".join(Authority(name=f"authority {number}").pem for number in range(3))
    assert parse(GOOD | {"certificates": few}).certificates == few
    many = few + "".join(Authority(name=f"another {number}").pem for number in range(9))
    with pytest.raises(ConfigError) as caught:
        parse(GOOD | {"certificates": many})
    assert caught.value.what == "tidemill:certificates"
    assert re.fullmatch(r"what is left of EC2's user data in queue cpu, \d+ less", caught.value.allowed)


def test_a_password_is_in_no_error():
    with pytest.raises(ConfigError) as caught:
        parse(changed("proxy", {"url": "http://user:hunter2@proxy.example.com:3128"}))
    assert "hunter2" not in str(caught.value) + repr(vars(caught.value))
