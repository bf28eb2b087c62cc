"""Nothing secret is stored, and nothing else is touched."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.sglang.flags import flags
from sweep.sglang.journal import scrape
from sweep.sglang.redact import MASK, redact, redact_text
from tests.sglang.forms import ARGS, FORMS, LINES

TOKEN = "hf_" + "aB3dE5gH7" * 3


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("serve --api-key s3cret --tp 4", f"serve --api-key {MASK} --tp 4"),
        ("serve --admin-api-key=s3cret --tp 4", f"serve --admin-api-key={MASK} --tp 4"),
        ("--ssl-keyfile-password 'a b' --x", f"--ssl-keyfile-password {MASK} --x"),
        ("--api-key 'a'\"'\"'b' --x", f"--api-key {MASK} --x"),
        ("ServerArgs(api_key='k', tp_size=2)", f"ServerArgs(api_key={MASK}, tp_size=2)"),
        ("{'admin_api_key': \"it's\", 'x': 1}", f"{{'admin_api_key': {MASK}, 'x': 1}}"),
        ("HF_TOKEN=abc,def PATH=/bin", f"HF_TOKEN={MASK} PATH=/bin"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c", f"AWS_SECRET_ACCESS_KEY={MASK}"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {MASK}"),
        ("https://user:pass@host/x", f"https://user:{MASK}@host/x"),
        (f"downloading with {TOKEN}!", f"downloading with {MASK}!"),
        *((f"with {start}{TOKEN[3:]}!", f"with {MASK}!") for start in ("ghp_", "gho_", "sk-")),
        (f"with github_pat_{TOKEN[3:]}_{TOKEN[3:]}!", f"with {MASK}!"),
    ],
)
def test_what_looks_like_a_secret(text: str, kept: str) -> None:
    assert redact_text(text.encode()).decode() == kept
    assert redact_text(kept.encode()).decode() == kept


@pytest.mark.parametrize(
    "text",
    [
        *LINES,
        "Prefill batch, #new-token: 6, #cached-token: 0, token usage: 0.00",
        "ServerArgs(api_key=None, tokenizer_path='/m', speculative_token_map='/map.pt')",
        "max_total_num_tokens=12, chunked_prefill_size=8192",
        "serve --tokenizer-path /m --speculative-token-map /map --ssl-keyfile /k.pem",
        "SSLError at https://host:443/path and http://127.0.0.1:30000",
    ],
)
def test_what_is_none(text: str) -> None:
    assert redact_text(text.encode()).decode() == text


def test_no_argument_of_sglang_is_a_secret() -> None:
    """The `server_args=` line names them all."""
    found = {flag.field: flag.name for flag in flags().values()}
    assert "hf_chat_template_name" in found
    for field, name in found.items():
        for text in (f"{{'{field}': None}}", f'{{"{field}": 5}}', f"{field}=None", f"--{name}"):
            assert redact_text(text.encode()).decode() == text


def test_server_info_at_any_depth() -> None:
    info = {
        "api_key": "topsecret",
        "admin_api_key": None,
        "launch_command": "python -m sglang.launch_server --api-key topsecret --tp 4",
        "tokenizer_path": "/m",
        "max_total_num_tokens": 5,
        "internal_states": [
            {"env_vars": {"HF_TOKEN": "x", "MY_VALUE": "of topsecret"}, "kt_experts_per_token": 3}
        ],
    }
    found = redact(info, ["topsecret"])
    assert "topsecret" not in json.dumps(found)
    assert found["launch_command"] == f"python -m sglang.launch_server --api-key {MASK} --tp 4"
    assert found["admin_api_key"] is None
    assert found["tokenizer_path"] == "/m"
    assert found["internal_states"] == [
        {"env_vars": {"HF_TOKEN": MASK, "MY_VALUE": f"of {MASK}"}, "kt_experts_per_token": 3}
    ]
    assert info["api_key"] == "topsecret"


@given(st.text(min_size=4, max_size=30).filter(lambda secret: secret not in MASK))
def test_a_known_secret_is_gone_however_it_was_written(secret: str) -> None:
    for text in (secret, repr({"x": secret}), json.dumps({"x": secret}), f"--x={secret} y"):
        if any(part in MASK for part in (secret, repr(secret)[1:-1])):
            continue
        hidden = redact_text(text.encode("utf-8", "replace"), [secret])
        assert secret.encode("utf-8", "replace") not in hidden


def test_a_redacted_journal_is_still_read() -> None:
    args = ARGS.replace("'api_key': None", "'api_key': 'topsecret'")
    text = FORMS["short-iso"]([args, *LINES[1:]]).encode()
    hidden = redact_text(text, ["topsecret"])
    assert b"topsecret" not in hidden
    assert scrape(hidden) == scrape(FORMS["short-iso"](LINES).encode())


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    redact_text(data, ["secret"])
