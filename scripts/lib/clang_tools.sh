# shellcheck shell=bash
# The clang tools that the scripts use: their findings and their formatting change from one major version to the next.

readonly clang_major=14 # Debian 12's

# clang_tool NAME: prints the command. An error if only another version is there.
clang_tool() {
  local command
  for command in "$1-$clang_major" "$1"; do
    if [[ $("$command" --version 2>/dev/null) =~ version\ $clang_major\. ]]; then
      printf '%s' "$command"
      return
    fi
  done
  printf '%s %s is not here; on Debian 12 scripts/setup.sh --dev installs it. Nothing was checked.\n' "$1" "$clang_major" >&2
  return 1
}
