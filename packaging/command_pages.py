#!/usr/bin/env python3
"""Man pages and shell completions of the command line, made from what its --help says.

usage: command_pages.py PROGRAM FOLDER

Writes FOLDER/man/skald.1 and skald-COMMAND.1 for each command, by help2man, and FOLDER/bash, FOLDER/zsh and FOLDER/fish.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

NAME = "skald"


def help_of(program, words):
    return subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout


class Command:
    """One command: what its help says about it, its options and its subcommands."""

    def __init__(self, program, words=()):
        self.words = list(words)
        text = help_of(program, self.words)
        self.about = text.splitlines()[0]
        self.options, self.children, self.takes = [], [], set()
        section = ""
        for line in text.splitlines():
            if re.fullmatch(r"[A-Z][a-z ]*:", line):
                section = line
            elif section == "Subcommands:" and (found := re.match(r"  ([a-z-]+)(\s|$)", line)):
                self.children.append(Command(program, [*self.words, found[1]]))
            elif section == "Options:" and (found := re.match(r"  (-[^\s]+)(.*)", line)):
                names = found[1].split(",")
                self.options += names
                if re.match(r" [A-Z]", found[2]):
                    self.takes.update(names)

    def all(self):
        yield self
        for child in self.children:
            yield from child.all()


def write_man(program, top, folder):
    """Each command has a page of its own, as git's have. help2man knows programs only, so each is one for a moment."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        for command in top.all():
            name = "-".join([NAME, *command.words])
            one = pathlib.Path(made, name)
            # The version is that of the program, and the usage says what is typed.
            one.write_text(
                "#!/bin/sh\n"
                f'[ "$1" != --version ] || {{ echo "{name} $({program} --version)"; exit; }}\n'
                f'{program} {" ".join(command.words)} "$@" | sed "s|Usage: .*{pathlib.Path(program).name}|Usage: {NAME}|"\n')
            one.chmod(0o755)
            about = command.about if command.words else "operates sagas of Skald"
            subprocess.run(["help2man", "--no-info", "--name", about, "--source", "Skald",
                            "--output", folder / f"{name}.1", one], check=True)
            text = (folder / f"{name}.1").read_text()
            text += '.SH "SEE ALSO"\n' + see_also(top, command)
            (folder / f"{name}.1").write_text(text)


def see_also(top, command):
    others = command.children or [c for c in top.all() if c.words[:-1] == command.words[:-1] and c is not command]
    names = ["-".join([NAME, *other.words]) for other in others]
    if command.words:
        names.insert(0, "-".join([NAME, *command.words[:-1]]))
    return "".join(f".BR {name} (1){',' if name != names[-1] else ''}\n" for name in dict.fromkeys(names))


def write_bash(top, folder):
    folder.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"    '{' '.join(c.words)}') words='{' '.join([*(k.words[-1] for k in c.children), *c.options])}' ;;\n"
                   for c in top.all())
    names = " ".join(sorted({word for c in top.all() for word in c.words}))
    (folder / NAME).write_text(f"""# bash completion for {NAME}
_{NAME}() {{
  local at=() words= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case " {names} " in *" $word "*) at+=("$word") ;; esac
  done
  case "${{at[*]}}" in
{rows}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F _{NAME} {NAME}
""")


def write_zsh(folder):
    """Zsh reads bash's."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"_{NAME}").write_text(f"""#compdef {NAME}
autoload -Uz bashcompinit && bashcompinit
source /usr/share/bash-completion/completions/{NAME}
_bash_complete -o default -F _{NAME}
""")


def write_fish(top, folder):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# fish completion for {NAME}", f"complete -c {NAME} -f"]
    for c in top.all():
        seen = " ".join(c.words)
        inside = f"__fish_seen_subcommand_from {c.words[-1]}" if c.words else "__fish_use_subcommand"
        for child in c.children:
            about = child.about.replace("'", "\\'")
            lines.append(f"complete -c {NAME} -n '{inside}' -a {child.words[-1]} -d '{about}' # {seen}".rstrip("# "))
        for option in c.options:
            if option.startswith("--"):
                takes = " -r -F" if option in c.takes else ""
                lines.append(f"complete -c {NAME} -n '{inside}' -l {option[2:]}{takes}")
    (folder / f"{NAME}.fish").write_text("\n".join(dict.fromkeys(lines)) + "\n")


def main():
    program, folder = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    top = Command(program)
    write_man(program, top, folder / "man")
    write_bash(top, folder / "bash")
    write_zsh(folder / "zsh")
    write_fish(top, folder / "fish")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
