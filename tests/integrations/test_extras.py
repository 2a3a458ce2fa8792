"""An integration whose framework is not installed says which extra to install."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

FRAMEWORKS = {
    "agent_framework": "agent_framework",
    "ai_sdk": "starlette",
    "claude_agent_sdk": "claude_agent_sdk",
    "google_adk": "google",
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands",
}
_IMPORT = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{package}":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
import frontdesk.integrations.{module}
"""


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_an_integration_without_its_framework_names_the_extra(module: str) -> None:
    source = _IMPORT.format(module=module, package=FRAMEWORKS[module])
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    extra = module.replace("_", "-")
    refusal = rf"ModuleNotFoundError: frontdesk.integrations.{module} needs the package \w+: "
    assert re.fullmatch(refusal + re.escape(f"pip install 'frontdesk[{extra}]'"), done.stderr.splitlines()[-1])
