"""How sessions are found: the end of a prefix, and digests of metadata."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frontdesk.tree.sessions import metadata_digest, metadata_digests, prefix_end

TEXTS = st.text(st.sampled_from("ab%_\\\x01\ud7ff\ue000\uffff\U00010000\U0010ffff"), max_size=4)


@given(TEXTS, TEXTS)
def test_a_text_begins_with_a_prefix_if_and_only_if_it_is_between_the_prefix_and_its_end(
    text: str, prefix: str
) -> None:
    end = prefix_end(prefix)
    assert text.startswith(prefix) == (prefix <= text and (end is None or text < end))
    # Stores compare UTF-8, which has the order of code points.
    assert end is None or prefix.encode() < end.encode()


def test_numbers_of_equal_value_have_the_same_digest_and_other_values_do_not() -> None:
    assert metadata_digest("a", 1) == metadata_digest("a", 1.0)
    assert metadata_digest("a", 2**70) == metadata_digest("a", 2.0**70)
    values = (1, True, "1", "true", "", 0, False, 1.5, "1.5", "a", 1e308, -1)
    assert len({metadata_digest("a", value) for value in values}) == len(values)
    assert metadata_digest("a", "b") != metadata_digest("b", "a")


def test_only_top_level_texts_numbers_and_bools_have_digests() -> None:
    wanted = [metadata_digest("a", 1), metadata_digest("b", "x"), metadata_digest("c", True)]
    assert metadata_digests('{"a":1.0,"b":"x","c":true,"d":null,"e":[1],"f":{"a":2}}') == wanted
    assert metadata_digests("{}") == []
