#!/usr/bin/env bash
# Prints the path of a Chromium for `make browser`: one that is installed, or Debian's, which it
# installs where it may. Everything else it says goes to standard error.
set -euo pipefail

find_one() {
  command -v "${CHROMIUM:-chromium}" || {
    [ -z "${CHROMIUM:-}" ] && { command -v chromium-browser || command -v google-chrome; }
  }
}

find_one && exit
if [ -n "${CHROMIUM:-}" ]; then
  echo "There is no program '$CHROMIUM'; let CHROMIUM name a Chromium, or unset it." >&2
  exit 1
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "No Chromium is installed; install one, or name it: CHROMIUM=path make browser" >&2
  exit 1
fi
echo "Installing Debian's Chromium; the first time takes a minute." >&2
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install --yes --quiet --no-install-recommends chromium)
{ "${install[@]}" || { apt-get update --quiet && "${install[@]}"; }; } >&2
find_one
