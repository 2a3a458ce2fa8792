"""Keys: text and key are exact inverses for any parts, and no two keys have the same text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontdesk import ConfigurationError, InvalidKeyError, SessionKey, SessionManager

TEXT = st.text(min_size=1, max_size=40, alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TRICKY = st.text("ab:%23A5*", min_size=1, max_size=8)
PART = TEXT | TRICKY
KEYS = st.builds(SessionKey, PART, PART, PART, st.none() | PART)


@given(KEYS)
def test_parse_is_the_exact_inverse_of_str(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@given(KEYS, KEYS)
@example(SessionKey("a:b", "c", "d"), SessionKey("a", "b", "c", "d"))
@example(SessionKey("a", "b", "c%3Ad"), SessionKey("a", "b", "c:d"))
def test_different_keys_have_different_texts(one: SessionKey, other: SessionKey) -> None:
    assert (str(one) == str(other)) == (one == other)


@given(st.text(":%23Aab", max_size=20) | st.text(max_size=20))
def test_a_text_is_a_valid_key_or_is_refused(text: str) -> None:
    try:
        key = SessionKey.parse(text)
    except InvalidKeyError:
        return
    assert str(key) == text


@pytest.mark.parametrize(
    "text", ["", "a", "a:b", "a:b:c:d:e", ":b:c", "a::c", "a:b:", "a:b:c:", "a:b:%", "a:b:%3a", "a:b:%41", "a:b:c\0"]
)
def test_an_object_that_is_not_a_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidKeyError):
        SessionKey.parse(text)


@pytest.mark.parametrize("value", [None, 5, b"a:b:c", ["a", "b", "c"], SessionKey("a", "b", "c")])
def test_only_a_text_can_be_parsed(value: object) -> None:
    with pytest.raises(InvalidKeyError):
        SessionKey.parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("parts", [(), ("agent", "room"), ("Peer",), (None,)])
def test_isolation_is_by_parts_of_a_key(parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError):
        SessionManager("memory://").with_isolation(*parts)


@given(KEYS, KEYS, st.sets(st.sampled_from(["agent", "channel", "peer", "thread"]), min_size=1))
def test_keys_share_an_address_if_the_parts_that_count_are_equal(
    one: SessionKey, other: SessionKey, parts: set[str]
) -> None:
    runtime = SessionManager("memory://").with_isolation(*parts)._runtime
    alike = all(getattr(one, part) == getattr(other, part) for part in parts)
    assert (runtime.stored_key(one) == runtime.stored_key(other)) == alike
