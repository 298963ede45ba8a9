"""Secrets that were never valid, one for each form of a shape, and texts that only look like one.

They are put together here, so that no scanner of a repository takes this file for a leak.
"""

import base64
import hashlib
from typing import NamedTuple

from tickets.redact import Redactor, known_values


def letters(number: int, seed: str = "", alphabet: str = "") -> str:
    """Return so many characters that look random, the same ones each time."""
    alphabet = alphabet or "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    found, at = "", 0
    while len(found) < number:
        found += "".join(alphabet[b % len(alphabet)] for b in hashlib.sha512(f"{seed}{at}".encode()).digest())
        at += 1
    return found[:number]


UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Planted(NamedTuple):
    """A secret: its kind, what is redacted of it, and the text that it is in."""

    kind: str
    value: str
    text: str


def _alone(kind: str, prefix: str, rest: str) -> Planted:
    return Planted(kind, prefix + rest, f"the key is {prefix}{rest}, keep it")


def _inside(kind: str, before: str, value: str, after: str = "") -> Planted:
    return Planted(kind, value, f"{before}{value}{after}")


def _block(name: str) -> Planted:
    lines = [letters(64, f"{name}{at}", BASE64) for at in range(6)]
    dashes = "-" * 5
    value = "\n".join(
        [f"{dashes}BEGIN {name}{dashes}", *lines, letters(11, name), f"{dashes}END {name}{dashes}"]
    )
    return Planted("private-key", value, f"the key:\n{value}\nend")


PLANTED = (
    _alone("anthropic-key", "sk-" + "ant-api03-", letters(80, "a", WORD) + "AA"),
    _alone("anthropic-key", "sk-" + "ant-", letters(32, "a2")),
    _alone("openai-key", "sk-" + "proj-", letters(120, "b", WORD) + "x"),
    _alone("openai-key", "sk-" + "svcacct-", letters(40, "b1")),
    _alone("openai-key", "sk-" + "admin-", letters(41, "b2")),
    _alone("openai-key", "sk-", letters(48, "b3")),
    _alone("google-key", "AI" + "za", letters(34, "c", WORD) + "q"),
    _alone("google-key", "GOC" + "SPX-", letters(28, "c1")),
    _alone("google-key", "ya" + "29.", letters(60, "c2", WORD) + "z"),
    *(_alone("github-token", f"gh{one}" + "_", letters(36, f"d{one}")) for one in "pousr"),
    _alone("github-token", "github" + "_pat_", letters(22, "d") + "_" + letters(59, "d1")),
    *(_alone("gitlab-token", f"gl{one}-", letters(20, one)) for one in ("pat", "dt", "rt", "ptt", "soat")),
    _alone("aws-key", "AK" + "IA", letters(16, "f", UPPER)),
    _alone("aws-key", "AS" + "IA", letters(16, "f1", UPPER)),
    _inside("aws-key", "aws_secret_access_key = ", letters(40, "f2", BASE64)),
    *(
        _alone("slack-token", f"{one}-", f"{letters(10, one, '2579')}-{letters(24, one)}")
        for one in ("xoxb", "xoxp", "xoxa", "xoxr", "xoxs", "xapp")
    ),
    _inside("slack-token", "https://hooks.slack.com/services/", "T0A9KQ2MX/B0C7PL4WZ/" + letters(24, "g")),
    *(
        _alone("stripe-key", f"{one}_{mode}" + "_", letters(24, one + mode))
        for one in ("sk", "rk")
        for mode in ("live", "test")
    ),
    _alone("registry-token", "np" + "m_", letters(36, "h")),
    _alone("registry-token", "pypi-" + "AgE", letters(90, "h1", WORD) + "x"),
    _alone("registry-token", "h" + "f_", letters(34, "h2", WORD[:52])),
    _alone("registry-token", "S" + "G.", f"{letters(22, 'h3')}.{letters(43, 'h4')}"),
    _alone("jwt", "ey" + "J", f"{letters(33, 'i')}.eyJ{letters(70, 'i1')}.{letters(43, 'i2', WORD)}"),
    _block("RSA PRIVATE " + "KEY"),
    _block("PRIVATE " + "KEY"),
    _alone("private-key", "AGE-SECRET-" + "KEY-1", letters(58, "j", UPPER)),
    _inside("url-password", "postgres://app:", "S3cr!t,pw%21", "@db.internal:5432/shop"),
    _inside("url-password", "redis://:", letters(12, "k"), "@cache/0"),
    _inside("authorization", "Authorization: Bearer ", letters(40, "l", WORD) + "x"),
    _inside("authorization", "-H 'a: Basic ", base64.b64encode(b"ada:lovelace-1815").decode(), "'"),
    _inside("named", "export DEPLOY_KEY=", letters(24, "m") + "aZ4"),
    _inside("named", "SERVICE_TOKEN: ", letters(30, "m1") + "aZ4="),
    _inside("named", 'DB_PASSWORD="', letters(22, "m2") + "/x+aZ4", '"'),
)  # fmt: skip
"""At least one of each of the 14 shapes, and each prefix of the table."""

KNOWN = {
    "ACME_API_KEY": "correct horse battery",
    "DEPLOY_TOKEN": 'quote"and\\backslash',
    "SIGNING_SECRET": "großes-geheimnis",
    "SMTP_PASS": "p4$WORD...7",
    "SENTRY_DSN": "https://0a1b2c3d@sentry.internal/7",
}
"""Variables with known values: with a blank, with escapes, with letters that JSON escapes, with a `$`."""


def redactor(*allowed: str) -> Redactor:
    """Return a redactor that knows these values."""
    return Redactor(known_values(KNOWN), allowed)


def _hash(kind: str, text: str) -> str:
    return hashlib.new(kind, text.encode()).hexdigest()


LOOK_ALIKES = (
    f"commit {_hash('sha1', 'a')}",
    f"Orchestrate-Run: 20260216_142834 {_hash('sha1', 'b')[:10]}",
    f"sha256:{_hash('sha256', 'c')}",
    f"md5 {_hash('md5', 'd')}",
    '"integrity": "sha512-' + base64.b64encode(hashlib.sha512(b"e").digest()).decode() + '"',
    "id 123e4567-e89b-42d3-a456-426614174000",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + letters(43, "n") + " ada@example.org",
    "ssh-rsa AAAAB3NzaC1yc2E" + letters(360, "n1", BASE64),
    "-----BEGIN CERTIFICATE-----\n" + letters(64, "n2", BASE64) + "\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\n" + letters(64, "n3", BASE64) + "\n-----END PUBLIC KEY-----",
    "STRIPE_KEY=pk_" + "live_" + letters(24, "n4") + "aZ4",
    "PUBLIC_KEY=" + letters(60, "n5") + "aZ4",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
    "sk_test_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2"
    "MjM5MDIyfQ." + "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    "OPENAI_API_KEY=sk-" + "test-not-real",
    "sk-" + "ant-api03-" + "x" * 80,
    "sk-" + "X" * 48,
    "ghp_" + "a" * 36,
    "ghp_" + "12345678" + letters(28, "n6"),
    "gho_" + "dummy" + letters(31, "n7"),
    "xoxb-" + "your-token-1-goes-in-here",
    "xoxb-" + "this-is-a-word-of-kebab-case",
    "https://hooks.slack" + ".com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "postgres://user:password@localhost/db",
    "postgres://user:changeme@localhost/db",
    "oracle://scott:tiger@localhost/db",
    "postgres://user:<password>@localhost/db",
    "postgres://user:${DB_PASSWORD}@localhost/db",
    "postgres://user:$DB_PASSWORD@localhost/db",
    "postgres://user:...@localhost/db",
    "f'postgres://{user}:{password}@{host}/{name}'",
    "https://github.com/ada/shop.git and mail ada@example.org",
    "http://localhost:8080/a@b",
    "Bearer authentication is used",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer ${{ secrets.DEPLOY_TOKEN_OF_THE_SHOP }}",
    "CACHE_KEY=linux_python_3_11_dependencies",
    "RELEASE_KEY=/Users/Ada/Projects/Shop2/release",
    f"CACHE_KEY: {_hash('sha256', 'f')}",
    "look for `-----BEGIN RSA PRIVATE KEY-----` in the files of the project",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "risk-proj-management-of-all-the-things-that-we-have-to-do-in-the-project",
    "task-" + letters(48, "n8"),
    "my" + "ghp_" + letters(36, "n9"),
    "ghp_" + letters(36, "n10") + "_more",
    "AIza" + letters(36, "n11"),
    "SG.Service.Registry.Of.The.Whole.Program",
)
"""Ids, digests, public keys, keys of manuals, placeholders, and words."""
