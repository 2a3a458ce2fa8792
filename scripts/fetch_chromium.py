"""Installs Chromium and the fonts that the browser tests need, if they are missing: Debian's packages, with apt as
root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-noto-core", "fonts-noto-cjk", "fonts-noto-color-emoji", "fonts-inter")
ADVICE = f"install them yourself, for example with 'apt install {' '.join(PACKAGES)}'"
_SECONDS = 900


def main() -> None:
    if any(map(shutil.which, PROGRAMS)):
        return
    if shutil.which("apt-get") is None or os.geteuid():
        sys.exit(f"The browser tests need Chromium, and only root can install packages: {ADVICE}.")
    print("installing Chromium and fonts")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "--quiet=2"], ["install", "--quiet=2", "--yes", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(["apt-get", *command], env=environment, timeout=_SECONDS, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"The browser tests need Chromium, and apt could not install it:\n{done.stderr}\nEither {ADVICE}.")


if __name__ == "__main__":
    main()
