"""Context windows by the name of the model."""

from __future__ import annotations

import pytest

from frontdesk import DEFAULT_MAX_TOKENS, SessionManager
from frontdesk.messages import new_id
from frontdesk.models import context_window


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("gpt-4-1106-preview", 128_000),
        ("gpt-4o-mini-2024-07-18", 128_000),
        ("gpt-4.1-nano", 1_047_576),
        ("gpt-5-mini", 400_000),
        ("gpt-5.2-chat-latest", 128_000),
        ("gpt-5.4", 1_050_000),
        ("gpt-5.4-mini", 400_000),
        ("ft:gpt-4o-mini-2024-07-18:acme::abc", 128_000),
        ("openai/gpt-oss-120b", 131_072),
        ("o1-mini", 128_000),
        ("o3", 200_000),
        ("claude-3-5-sonnet-20241022", 200_000),
        ("claude-haiku-4-5-20251001", 200_000),
        ("claude-opus-4-6", 1_000_000),
        ("us.anthropic.claude-opus-5-v1:0", 1_000_000),
        ("anthropic/claude-sonnet-5-5", 1_000_000),
        ("models/gemini-2.5-flash", 1_048_576),
        ("gemini-1.5-pro-002", 2_097_152),
        ("gemma3:27b", 131_072),
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("llama3.1:8b", 131_072),
        ("Meta-Llama-3-70B", 8_192),
        ("meta.llama3-1-70b-instruct-v1:0", 131_072),
        ("llama-4-scout", 10_485_760),
        ("Qwen/Qwen2.5-7B-Instruct", 32_768),
        ("qwen3-coder-plus", 262_144),
        ("mistral-large-latest", 131_072),
        ("open-mistral-nemo", 131_072),
        ("mixtral-8x22b", 65_536),
        ("deepseek-chat", 131_072),
        ("deepseek-ai/DeepSeek-V4", 1_000_000),
    ],
)
def test_a_known_family_has_a_window(model: str, tokens: int) -> None:
    assert context_window(model) == tokens


@pytest.mark.parametrize("model", ["", "my-own-model", "gpt", "llama", "/", "phi-4"])
def test_an_unknown_model_has_none(model: str) -> None:
    assert context_window(model) is None


async def test_an_unknown_model_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    model = f"in-house-{new_id()}"
    async with SessionManager("memory://") as manager:
        for name in ("a", "b"):
            await manager.create(id=name, model=model)
            info = await manager.get(name)
            assert info is not None
            assert info.max_tokens == DEFAULT_MAX_TOKENS
        assert [model in record.getMessage() for record in caplog.records] == [True]
        assert "max_tokens" in caplog.text
        await manager.create(id="c", model=f"in-house-{new_id()}", max_tokens=8_000)
        await manager.create(id="d", model="gpt-5")
        assert len([*await manager.list()]) == 4
        assert len(caplog.records) == 1
