"""The calls that the page "coming from ..." names exist."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import pytest

import frontdesk
from frontdesk import Orchestrator, Session, SessionManager, States

PAGE = (Path(__file__).parent.parent / "docs" / "coming-from.md").read_text()
CALL = re.compile(r"\b(manager|session|states|orchestrator)\.(\w+)(?:\(([^`]*?)\))?")
OWNERS: dict[str, type] = {
    "manager": SessionManager,
    "session": Session,
    "states": States,
    "orchestrator": Orchestrator,
}
THEIRS = {
    "Cloudflare Agents: `Session`": """
        create forSession withContext withCachedPrompt onCompaction compactAfter onCompactionError getHistory getMessage
        getRecentHistory getHistoryRowStats getLatestLeaf getBranches getPathLength appendMessage updateMessage
        deleteMessages clearMessages search addCompaction getCompactions compact getContextBlock getContextBlocks
        replaceContextBlock appendContextBlock addContext removeContext unloadSkill getLoadedSkillKeys tools
        freezeSystemPrompt refreshSystemPrompt createCompactFunction truncateOlderMessages SessionProvider""",
    "Cloudflare Agents: `SessionManager`": """
        create getSession get list rename delete append upsert appendAll getHistory getMessageCount clearMessages
        deleteMessages getBranches fork compactAndSplit addUsage search needsCompaction maxContextMessages tools
        withSearchableHistory withContext withCachedPrompt onCompaction compactAfter onCompactionError""",
    "AgentDock": """
        SessionManager createSession getSession updateSession deleteSession OrchestrationStateManager getState
        getOrCreateState updateState setActiveStep addUsedTool advanceSequence resetState cleanupSession
        cleanupExpiredStates toAIOrchestrationState OrchestrationManager getAllowedTools processToolUsage
        StorageFactory createStorageProvider applyHistoryPolicy""",
    "The Go package `session` (ZimaOS Blue)": """
        SessionID ParseSessionID GetOrCreate Get AddMessage GetMessages SetSystemPrompt SetSummary SetTitle AddTag
        RemoveTag GetTags SetCustomData SetState Info TokenUsageRatio Clear Compact ShouldCompact
        CompactWithCustomPrompt CompactWithMemoryRefresh ShouldRefreshMemory RefreshMemoryBeforeCompaction NewSession
        Reset Archive Delete List Stats Recover Stop SessionHook SessionMemoryHook SessionStore MemoryRefreshConfig
        NormalizeExtractedMemoryForStorage NormalizeMemoryFingerprint""",
}
"""the calls that each of the others has"""


def test_every_call_in_the_tables_exists() -> None:
    calls = [(owner, name) for owner, name, _ in CALL.findall(PAGE)]
    assert len(calls) > 100
    assert [call for call in calls if not callable(getattr(OWNERS[call[0]], call[1], None))] == []


def test_every_class_and_environment_variable_exists() -> None:
    classes = set(re.findall(r"`(SessionKey|Session|SessionManager|Orchestrator|StateExistsError)\b", PAGE))
    assert all(hasattr(frontdesk, name) for name in classes)
    source = "".join(path.read_text() for path in Path(frontdesk.__file__).parent.rglob("*.py"))
    assert all(name in source for name in ("SESSION_TTL_SECONDS", "FRONTDESK_STATE_URL"))


def test_every_keyword_in_the_tables_is_a_parameter() -> None:
    for owner, name, arguments in CALL.findall(PAGE):
        known = signature(getattr(OWNERS[owner], name)).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
        for keyword in re.findall(r"(\w+)=", arguments):
            assert takes_any or keyword in known, f"{owner}.{name} has no {keyword}"


@pytest.mark.parametrize("heading", THEIRS)
def test_every_call_of_the_others_is_in_their_table(heading: str) -> None:
    table = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines()[3:] if line]
    named = {name for _, theirs, *_ in rows for name in re.findall(r"[A-Za-z]\w+", theirs)}
    assert set(THEIRS[heading].split()) - named == set()
