#!/usr/bin/env python3
"""The pages (README.md, docs/ and others): they say what the source says, and their code is compiled and run as it stands.

    pages.py check ROOT               every line that is wrong is printed, and it fails
    pages.py program ROOT PAGE OUT    writes the C++ of a page as one file, in order, for run_pages.cmake
    pages.py blocks ROOT PAGE KIND    prints the blocks of that kind

A block is run by its kind: ```cpp as it stands; ```cpp body as the body of a function run_<line>(connection, service), all of
which run_all(connection, service) calls; ```sh and ```sql by commands.sh; ```python by sdk/python/tests; ```ts, ```go and ```java are in examples/order_saga; ```cmake, with the C++ of its page, by tests/install.
"""
import pathlib
import re
import subprocess
import sys

LINES_MAX = 200
KINDS = {"cpp", "cpp body", "sh", "sql", "cmake", "mermaid", "", "python", "ts", "go", "java"}


class Pages:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.offences = []
        self.names = sorted(str(p.relative_to(self.root)) for pattern in ("*.md", "bench/*.md", "docker/*.md", "docs/*.md", "docs/adr/*.md")
                            for p in self.root.glob(pattern))

    def read(self, name):
        return (self.root / name).read_text()

    def files(self, *patterns):
        return sorted(p for pattern in patterns for p in self.root.glob(pattern))

    def complain(self, where, what):
        self.offences.append(f"{where}: {what}")

    def expect_same(self, what, source, page, listed):
        for word in sorted(set(source) - set(listed)):
            self.complain(page, f"{what} {word} is in the source and not on the page")
        for word in sorted(set(listed) - set(source)):
            self.complain(page, f"{what} {word} is on the page and not in the source")

    def expect_some(self, what, found, least):
        if len(found) < least:
            self.complain("tests/docs/pages.py", f"{len(found)} {what} could be read, and there are at least {least}: adapt it")
        return found

    def blocks(self, page):
        """(kind, number of the first line, text) of each fenced block."""
        found, inside = [], None
        for number, line in enumerate(self.read(page).splitlines(), 1):
            if not line.startswith("```"):
                if inside:
                    inside[2].append(line + "\n")
            elif inside:
                found.append((inside[0], inside[1], "".join(inside[2])))
                inside = None
            else:
                inside = (line[3:], number + 1, [])
        if inside:
            self.complain(f"{page}:{inside[1]}", "the fence above is not closed")
        return found


def program(pages, page):
    code, calls = "", ""
    for kind, line, text in pages.blocks(page):
        if not kind.startswith("cpp"):
            continue
        # What begins with an #include stands alone.
        if not code and not text.startswith("#include"):
            code = f'#include "{pages.root.resolve()}/tests/docs/preamble.hpp"\n'
        text = f'#line {line} "{page}"\n{text}'  # the compiler names the page's own lines
        if kind == "cpp body":
            parameters = "[[maybe_unused]] pqxx::connection& connection, [[maybe_unused]] skald::service& service"
            text = f"static void run_{line}({parameters})\n{{\n{text}}}\n"
            calls += f"    run_{line}(connection, service);\n"
        code += text
    if calls:
        code += f"static void run_all(pqxx::connection& connection, skald::service& service)\n{{\n{calls}}}\n"
    return code


def check_blocks(pages):
    programs = pages.read("tests/docs/run_pages.cmake")
    for page in pages.names:
        for kind, line, text in pages.blocks(page):
            where = f"{page}:{line}"
            if kind not in KINDS:
                pages.complain(where, f"nothing runs blocks of the kind '{kind}'")
            elif kind.startswith("cpp") and f"docs_page({page} " not in programs:
                pages.complain(where, "nothing runs this C++: give the page a program in tests/docs/run_pages.cmake")
            elif kind == "sh":
                parsed = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
                if parsed.returncode:
                    pages.complain(where, f"the shell block does not parse:\n{parsed.stderr}")


def anchors(text):
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(pages):
    for page in pages.names:
        text = pages.read(page)
        if text.count("\n") > LINES_MAX and page not in ("ARCHITECTURE.md", "CHANGELOG.md"):
            pages.complain(page, f"{text.count(chr(10))} lines; a page has at most {LINES_MAX}")
        for link, anchor in re.findall(r"\]\(([^)#: \n]*)(?:#([^)\s]+))?\)", text):
            target = (pages.root / page).parent.joinpath(link) if link else pages.root / page
            if not target.exists():
                pages.complain(page, f"the link to {link} leads nowhere")
            elif anchor and anchor not in anchors(target.read_text()):
                pages.complain(page, f"{link or page} has no heading for #{anchor}")
    for page in sorted(p.name for p in pages.files("docs/*.md")):
        if page != "README.md" and f"]({page})" not in pages.read("docs/README.md"):
            pages.complain("docs/README.md", f"{page} is not in the list of all pages")


def check_references(pages):
    """docs/protocol.md, "Messages" in a comment needs that heading."""
    for file in pages.files("framework/**/*.?pp", "sql/**/*.sql", "examples/**/*.?pp", "tools/**/*.?pp"):
        for page, heading in re.findall(r'(docs/[a-z0-9/-]+\.md|\b[A-Z]+\.md)(?:, "([A-Za-z ]+)")?', file.read_text()):
            if not (pages.root / page).exists():
                pages.complain(file, f"there is no {page}")
            elif heading and not re.search(rf"^#+ {heading}$", pages.read(page), re.M):
                pages.complain(file, f'{page} has no heading "{heading}"')


def check_settings(pages):
    source, page = pages.read("framework/src/worker/settings.cpp"), pages.read("docs/operations.md") + pages.read("docs/redis.md")
    declared = pages.expect_some("settings", re.findall(r'"([A-Z_]+)", +"(--[a-z-]+)?"', source), 40)
    listed = re.findall(r"^\| `([A-Z_]+)`", page, re.M)
    pages.expect_same("the setting", [name for name, _ in declared], "docs/operations.md", listed)
    for _, flag in declared:
        if flag and f"`{flag}`" not in page:
            pages.complain("docs/operations.md", f"the flag {flag} is missing")


def check_log_events(pages):
    rows = re.findall(r"^\| (`[a-z]+\.[a-z_]+`[^|]*) \|", pages.read("docs/log-events.md") + pages.read("docs/redis.md"), re.M)
    listed = re.findall(r"`([a-z]+\.[a-z_]+)`", " ".join(rows))
    event = rf"(?:{'|'.join(sorted({name.split('.')[0] for name in listed}))})\.(?!hpp\b)[a-z_]+"
    logged = set()
    for file in pages.files("framework/src/**/*.cpp", "tools/**/*.cpp"):
        text = re.sub(r'SKALD_FAILPOINT(_IF)?\([^"]*"[a-z._]+"\)', "", file.read_text())  # their names look like events
        text = re.sub(r'\.set\("[a-z._]+"', "", text)  # and so do those of a span's attributes
        logged.update(re.findall(f'"({event})"', text))
        logged.update(re.findall(r'\b(?:debug|info|warning|error)\(\s*"([a-z]+\.[a-z_]+)"', text))  # of a family that is not listed
    pages.expect_same("the log event", pages.expect_some("log events", logged, 40), "docs/log-events.md", listed)


def check_metrics(pages):
    source, page = pages.read("framework/src/metrics/catalogue.hpp"), pages.read("docs/observability.md")
    declared = re.findall(r'\{\s*"(skald_[a-z_]+)",\s*kind::([a-z]+),', source)
    if len(declared) != len(re.findall(r"constexpr description ", source)):
        pages.complain("tests/docs/pages.py", f"{len(declared)} metrics could be read out of catalogue.hpp, and there are more")
    listed = re.findall(r"^\| `(skald_[a-z_]+)` \| ([a-z]+) \|", page, re.M)
    pages.expect_same("the metric", map(" ".join, declared), "docs/observability.md", map(" ".join, listed))
    rules = re.findall(r"- alert: (\w+)", pages.read("docker/observability/alerts.yml"))
    named = re.findall(r"`(Skald[A-Za-z]+)`", page)
    pages.expect_same("the alert", pages.expect_some("alerts", rules, 10), "docs/observability.md", named)
    reasons = re.search(r"parked_reasons\{([^}]*)\}", pages.read("framework/src/metrics/lane_metrics.hpp")).group(1)
    allowed = re.search(r"reason_is_known[^)]*\)", pages.read("sql/migrations/0001_tables.sql")).group()
    if re.findall(r'"([a-z_]+)"', reasons) != re.findall(r"'([a-z_]+)'", allowed):
        pages.complain("framework/src/metrics/lane_metrics.hpp", "parked_reasons are not those of the constraint reason_is_known")
    known = {name + suffix for name, _ in declared for suffix in ("", "_bucket", "_sum", "_count")}
    for file in ("alerts.yml", "alerts_test.yml", "dashboard.json"):
        for name in sorted(set(re.findall(r"\bskald_[a-z_]+", pages.read(f"docker/observability/{file}"))) - known):
            pages.complain(f"docker/observability/{file}", f"there is no metric {name}")


def check_protocol(pages):
    page = pages.read("docs/protocol.md")
    tables = pages.read("sql/migrations/0001_tables.sql")
    words = re.findall(r'= "(x-[a-z-]+|trace[a-z]+|skald\.[a-z]+)"', pages.read("framework/src/core/envelope.hpp"))
    words += re.findall(r"'([a-z_]+)'", re.search(r"reason_is_known[^)]*\)", tables).group())
    words += re.findall(r"CREATE TABLE skald\.([a-z]+)", tables + pages.read("sql/migrations/0014_started.sql"))
    words += re.findall(r"^--   (fresh|retry|duplicate|in_flight|mismatch|cancelled|paused) ",
                        pages.read("sql/migrations/0002_guard.sql"), re.M)
    for word in pages.expect_some("words of the protocol", words, 40):
        if not re.search(rf"`[^`\n]*{re.escape(word)}[^`\n]*`", page):
            pages.complain("docs/protocol.md", f"`{word}` is missing")


def check_problems(pages):
    source = next(p for p in pages.files("framework/src/*/problem_types.hpp"))
    kinds = re.findall(r'\{"([a-z-]+)", ([0-9]+),', source.read_text())
    declared = re.search(r"array<problem_kind, ([0-9]+)>", source.read_text()).group(1)
    if len(kinds) != int(declared):
        pages.complain(source, f"{declared} types are declared, and {len(kinds)} were read")
    rows = re.findall(r"^\| `([a-z-]+)` \| ([0-9]+) \|", pages.read("docs/http.md"), re.M)
    pages.expect_same("the type", map(" ".join, kinds), "docs/http.md", map(" ".join, rows))
    for file in pages.files("framework/src/**/*.?pp"):
        for made in re.findall(r'/problems/[a-z-]+"', file.read_text()):
            pages.complain(file, f"the type {made} is not from problem_types.hpp")


def test_sources(pages):
    return "".join(p.read_text() for p in pages.files("tests/**/*_test.cpp", "tests/conformance/*.hpp"))


def check_traps(pages):
    """Each test that the page names exists, and each trap that a test names is on the page."""
    sources, page = test_sources(pages), pages.read("docs/traps.md")
    for row in pages.expect_some("traps", re.findall(r"^\| [GRBS][0-9].*$", page, re.M), 45):
        named = re.search(r"\| `([^`]+)` \|$", row)
        if not named and not row.endswith("| a rule of `tests/layers.cmake` |"):
            pages.complain("docs/traps.md", f"this row names no test: {row}")
        elif named and f'("{named.group(1)}"' not in sources \
                and not (pages.root / f"tests/compile/mistakes/{named.group(1)}.cpp").exists():
            pages.complain("docs/traps.md", f"there is no test called: {named.group(1)}")
    for title in re.findall(r'TEST_CASE[A-Z_]*\("([GRBSF][1-9][0-9]*[, GRBSF0-9]*):', sources):
        for number in re.findall(r"[GRBS][1-9][0-9]*", title):
            if not re.search(rf"^\| ([GRBS0-9, ]+, )?{number}[ ,]", page, re.M):
                pages.complain("docs/traps.md", f"there is no row {number}, and a test is called {title}")


def check_guarantees(pages):
    """Every failpoint has its row, every mutant is named, and every promise of the README names tests that exist."""
    name, readme = "docs/guarantees.md", pages.read("README.md")
    page, header = pages.read(name), pages.read("framework/src/core/failpoint.hpp")
    points = re.findall(r'failpoint\{"([^"]+)", fault_socket::[a-z]+, "([^"]+)",\s*"([^"]+)"\}', header)
    if len(points) != len(re.findall(r'failpoint\{"', header)):
        pages.complain(name, f"{len(points)} failpoints could be read out of failpoint.hpp: there are more")
    for point, numbers, afterwards in pages.expect_some("failpoints", points, 20):
        if f"\n| `{point}` | {numbers} | {afterwards} | `{point}=" not in page:
            pages.complain(name, f"no row for {point} that says what failpoint.hpp says, and names a run")
    for row in re.findall(r"^\| `([a-z]+\.[a-z_]+)` ", page, re.M):
        if row not in [point for point, _, _ in points]:
            pages.complain(name, f"{row} is no failpoint")
    mutants = pages.expect_some("mutants", pages.files("tests/crash/mutants/*.patch"), 20)
    for file in mutants:
        head = dict(re.findall(r"^(What is wrong|Noticed by|Breaks): (.+)$", file.read_text(), re.M))
        row = f"| `{file.stem}` | {head['What is wrong']} | `{head['Noticed by']}` | {head['Breaks']} |"
        if f"\n{row}\n" not in page:
            pages.complain(name, f"this row is missing: {row}")
    listed = re.findall(r"^\| `([a-z_]+)` \| [^|]+ \| `[^`]+` \| [^|]+ \|$", page, re.M)
    pages.expect_same("the mutant", [file.stem for file in mutants], name, listed)
    promised = readme[:readme.index("## What is not")]
    for promise in re.findall(r"^. (\*\*[^*]+\*\*)", promised, re.M):
        if f"\n| {promise} | " not in page:
            pages.complain(name, f"the README promises {promise}, and no test is named for it")
    for file, titles in re.findall(r'`(tests/[^`]+)`((?:[:,] "[^"]+")*)', page):
        if not (pages.root / file).exists():
            pages.complain(name, f"there is no {file}")
            continue
        source = re.sub(r"TEST_CASE\(\s+", "TEST_CASE(", pages.read(file)) if titles else ""
        for title in re.findall(r'"[^"]+"', titles):
            if f"TEST_CASE({title})" not in source:
                pages.complain(name, f"{file} has no test {title}")


def check_version(pages):
    """CMakeLists.txt has the version; what can't read it there says the same. Conan's recipe and the packages read it."""
    version = re.search(r"^project\(skald VERSION ([0-9.]+)", pages.read("CMakeLists.txt"), re.M)[1]
    soname = ".".join(version.split(".")[:2])
    for file, line in (
        ("sdk/python/pyproject.toml", rf'version = "{version}"'),
        ("sdk/typescript/package.json", rf'  "version": "{version}",'),
        ("sdk/typescript/package-lock.json", rf'  "version": "{version}",'),
        ("sdk/java/pom.xml", rf"  <version>{version}</version>"),
        ("packaging/vcpkg/skald/vcpkg.json", rf'  "version": "{version}",'),
        ("packaging/debian/control", rf"Package: libskald{soname}"),
        (f"packaging/debian/libskald{soname}.install", r"usr/lib/\*/lib\*\.so\.\*"),
        ("docs/install.md", rf"\| `libskald{soname}` \|.*"),
        ("tests/packages/inside.sh", rf".*libskald{soname} .*"),
        ("CHANGELOG.md", rf"## \[{version}\].*"),
    ):
        if file.startswith("sdk/") and not (pages.root / file).exists():
            continue  # not all languages have a file of their own for it
        if not (pages.root / file).exists() or not re.search(f"^{line}$", pages.read(file), re.M):
            pages.complain(file, f"CMakeLists.txt says {version}, and this has no line `{line}`")


def main(words):
    if len(words) < 2 or (words[0], len(words)) not in (("check", 2), ("program", 4), ("blocks", 4)):
        sys.exit(__doc__)
    pages = Pages(words[1])
    if words[0] == "program":
        pathlib.Path(words[3]).write_text(program(pages, words[2]))
    elif words[0] == "blocks":
        print("".join(text for kind, _, text in pages.blocks(words[2]) if kind == words[3]), end="")
    else:
        for check in (check_blocks, check_links, check_references, check_settings, check_log_events, check_metrics, check_protocol,
                      check_problems, check_traps, check_guarantees, check_version):
            check(pages)
    if pages.offences:
        sys.exit("\n".join(map(str, pages.offences)))


if __name__ == "__main__":
    main(sys.argv[1:])
