"""Units and command lines as they may be shown: nothing that `init --from` takes for a secret."""

from __future__ import annotations

import pytest

from sweep.sglang.secrecy import without_secrets

KEY = "sk-live-0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Environment=HF_TOKEN=abc A=1", "Environment=HF_TOKEN=[redacted] A=1"),
        ('Environment="HF_TOKEN=a b" "B=2"', 'Environment="HF_TOKEN=[redacted]" "B=2"'),
        ("Environment='DB_PASSWORD=a b'", "Environment='DB_PASSWORD=[redacted]'"),
        ('HF_TOKEN="a b" x', "HF_TOKEN=[redacted] x"),
        ("# AWS_SECRET_ACCESS_KEY=abc/d+e", "# AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("SetCredential=hf:abc def", "SetCredential=[redacted] def"),
        (f"server --api-key {KEY} --tp 2", "server --api-key [redacted] --tp 2"),
        ("server --api-key=abc --tp 2", "server --api-key=[redacted] --tp 2"),
        ("server --admin_api_key 'a b' --tp 2", "server --admin_api_key [redacted] --tp 2"),
        ('server "--api-key=a b" --tp 2', 'server "--api-key=[redacted]" --tp 2'),
        ("s --api-key \\\n  123 \\\n  --tp 2", "s --api-key \\\n  [redacted] \\\n  --tp 2"),
        ("""s --json '{"api_key": "abc"}'""", """s --json '{"api_key": [redacted]}'"""),
        ("sh -c 'server --api-key abc'", "sh -c 'server --api-key [redacted]'"),
        ("--ssl-keyfile-password abc", "--ssl-keyfile-password [redacted]"),
        (f"docker run -e KEY={KEY} -e M=1", "docker run -e KEY=[redacted] -e M=1"),
        (f"server {KEY}", "server [redacted]"),
        ("http://me:pass@proxy:1/", "http://[redacted]@proxy:1/"),
        ("-H 'Authorization: Bearer abc'", "-H 'Authorization: Bearer [redacted]'"),
    ],
)  # fmt: skip
def test_secrets_are_masked_and_nothing_else(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Environment=TOKENIZERS_PARALLELISM=false MAX_TOKENS=100",
        "server --api-key ${SGLANG_API_KEY} --tp 2",
        "Environment=HF_TOKEN=${HF_TOKEN}",
        "PassEnvironment=HF_TOKEN",
        "KeyringMode=inherit",
        "server --ssl-keyfile /etc/k.pem --chunked-prefill-size 8192",
        "server --api-key --tp 2",
    ],
)
def test_what_holds_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_long_words_take_no_time() -> None:
    text = "key" * 20_000 + "--" * 20_000 + "a" * 50_000
    assert without_secrets(text) == text
