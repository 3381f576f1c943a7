#!/usr/bin/env python3
"""What programs that were built with Skald's shared libraries depend on: the layout of the public types, their virtual
functions, and the names that the libraries export for them. Within a version of the soname none of it changes.

    abi.py check BASELINE VERSION HEADERS COMPILER FLAGS... -- LIBRARY...    prints what differs, and fails
    abi.py renew BASELINE VERSION HEADERS COMPILER FLAGS... -- LIBRARY...    writes the baseline

A LIBRARY is static or shared. The layouts are what abidw (abigail-tools) reads out of one file that includes all headers. Of a
function, name and parameters are seen, and not what it returns; of pure virtual functions, how many there are. The test kit is static and has no soname: it is left out.
"""
import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

TYPE_TAGS = {"class-decl", "union-decl", "enum-decl"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def short(name):
    name = name.replace("std::__cxx11::", "std::")
    name = name.replace("std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string")
    name = re.sub(r"(nlohmann::json_abi_\w+)::basic_json<std::map.*?_serializer, std::vector<unsigned char, std::allocator<unsigned char> > >",
                  r"\1::json", name)
    return name.replace("std::basic_string_view<char, std::char_traits<char> >", "std::string_view")


class Layouts:
    """The types of the headers, out of what abidw says."""

    def __init__(self, text, headers):
        self.root = xml.fromstring(text)
        self.headers = f"{headers}/"
        self.names, self.parts, self.lines = {}, {}, {}
        self.name_types(self.root, [])
        self.read(self.root, [])

    def name_types(self, element, scope):
        for child in element:
            inner = scope
            if child.tag == "namespace-decl" or child.tag in TYPE_TAGS or child.tag in ("type-decl", "typedef-decl"):
                inner = scope + [child.get("name")]
                self.names[child.get("id")] = "::".join(inner)
            elif child.get("id"):
                self.parts[child.get("id")] = child
            self.name_types(child, inner)

    def type_name(self, number):
        if number in self.names:
            return short(self.names[number])
        part = self.parts.get(number)
        if part is None:
            return "void"
        inner = self.type_name(part.get("type-id"))
        if part.tag == "pointer-type-def":
            return inner + "*"
        if part.tag == "reference-type-def":
            return inner + ("&" if part.get("kind") == "lvalue" else "&&")
        if part.tag == "qualified-type-def":
            return inner + (" const" if part.get("const") else "")
        if part.tag == "array-type-def":
            return f"{inner}[{part.find('subrange').get('length')}]"
        return part.get("name") or part.tag

    def read(self, element, scope):
        for child in element:
            inner = scope + [child.get("name")] if child.tag == "namespace-decl" or child.tag in TYPE_TAGS else scope
            is_ours = child.get("filepath", "").startswith(self.headers)
            if child.tag in TYPE_TAGS and is_ours and child.get("is-declaration-only") != "yes":
                self.lines.setdefault(short("::".join(inner)), self.layout(child))
            self.read(child, inner)

    def layout(self, type_):
        lines = []
        for part in type_.findall("enumerator"):
            lines.append(f"{part.get('value')} {part.get('name')}")
        for part in type_.findall("base-class"):
            lines.append(f"{int(part.get('layout-offset-in-bits', 0)) // 8} : {self.type_name(part.get('type-id'))}")
        for part in type_.findall("data-member"):
            if part.get("static") == "yes":
                continue
            what = part.find("var-decl")
            lines.append(f"{int(part.get('layout-offset-in-bits', 0)) // 8} {what.get('name')} {self.type_name(what.get('type-id'))}")
        return lines


def sizes_and_tables(text):
    """{class: its size} and {class: its virtual functions}, out of what -fdump-lang-class writes."""
    sizes, tables = {}, {}
    for name, size in re.findall(r"^Class (skald::.*)\n   size=(\d+)", text, re.MULTILINE):
        if "<lambda" not in name:
            sizes[short(name)] = int(size)
    for name, body in re.findall(r"^Vtable for (skald::.*)\n.*\n((?:\d+ .*\n)+)", text, re.MULTILINE):
        slots = [re.sub(r"\(int \(\*\)\(\.\.\.\)\)", "", line).split(maxsplit=1)[1] for line in body.splitlines()]
        tables[short(name)] = slots
    return sizes, tables


class Exported:
    """Which of the names that a library exports the headers speak of."""

    def __init__(self, headers, classes):
        text = "\n".join(re.sub(r"//.*", "", p.read_text()) for p in headers)
        self.words = set(re.findall(r"\b(\w+)\(", text)) | set(re.findall(r"\boperator\W{1,3}(?=\()", text))
        self.scopes = {"skald"} | set(re.findall(r"\bnamespace (skald[\w:]*)", text))
        self.scopes |= {f"skald::{name}" for name in re.findall(r"^namespace (\w+)(?<!skald) \{", text, re.MULTILINE)}
        self.classes = classes

    def is_public(self, name):
        for prefix in ("vtable for ", "typeinfo for "):
            if name.startswith(prefix):
                return name[len(prefix):] in self.classes
        if " for " in name or not name.startswith("skald::"):
            return False
        called = re.sub(r"\[abi:\w+\]", "", name).split("(")[0]
        scope, _, last = called.rpartition("::")
        return scope in self.classes or (scope in self.scopes and last in self.words)

    def of(self, libraries):
        found = set()
        for library in libraries:
            dynamic = ["--dynamic"] if ".so" in library.name else []
            listed = run("nm", *dynamic, "--defined-only", "--extern-only", "--demangle", library)
            for kind, name in re.findall(r"^[0-9a-f]+ (\w) (.+)$", listed, re.MULTILINE):
                # What is weak is inline: each program has it itself, and a shared library does not export its own.
                if kind in "TDBR" or (kind == "V" and " for " in name):
                    found.add(short(name))
        return sorted(name for name in found if self.is_public(name))


def describe(headers, command, libraries):
    files = sorted(p for p in (headers / "skald").rglob("*.hpp") if not str(p.relative_to(headers)).startswith("skald/testing"))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        source = folder / "all.cpp"
        source.write_text("".join(f"#include <{p.relative_to(headers)}>\n" for p in files))
        run(*command, "-g", "-fPIC", "-shared", "-fno-eliminate-unused-debug-types", f"-I{headers}",
            f"-fdump-lang-class={folder}/classes", source, "-o", folder / "all.so")
        sizes, tables = sizes_and_tables((folder / "classes").read_text())
        layouts = Layouts(run("abidw", "--load-all-types", "--no-corpus-path", folder / "all.so"), headers).lines
    exported = Exported(files, set(sizes)).of(libraries)
    if len(sizes) < 50 or len(layouts) < 50 or len(exported) < 50:
        sys.exit(f"{len(sizes)} classes, {len(layouts)} layouts and {len(exported)} names were found, and there are more: adapt {__file__}")
    lines = []
    for name in sorted(set(sizes) | set(layouts)):
        lines.append(f"{name} {sizes[name]} bytes" if name in sizes else f"{name} enum")
        lines += [f"    {line}" for line in layouts.get(name, [])]
        lines += [f"    virtual {slot}" for slot in tables.get(name, [])]
    return lines + [f"exports {name}" for name in exported]


def main():
    what, baseline, version, headers = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4])
    end = sys.argv.index("--")
    if not shutil.which("abidw"):
        sys.exit("abidw is missing: install abigail-tools (scripts/setup.sh)")
    now = describe(headers, sys.argv[5:end], [pathlib.Path(p) for p in sys.argv[end + 1:]])
    soname = ".".join(version.split(".")[:2])
    if what == "renew":
        baseline.write_text("\n".join(now) + "\n")
        print(f"{baseline} is renewed. Once {soname}.0 is released, what was changed or removed there needs another soname: raise "
              f"the minor version in CMakeLists.txt and rename the package libskald{soname}")
        return
    if not baseline.exists():
        sys.exit(f"{baseline} is missing: cmake --build build --target renew_abi")
    differs = [line for line in difflib.unified_diff(baseline.read_text().splitlines(), now, "released", "now", lineterm="", n=3)]
    if differs:
        print("\n".join(differs))
        sys.exit(f"The ABI of libskald.so.{soname} has changed. If it was not meant, undo it. Until {soname}.0 is released, and for what was "
                 f"only added: cmake --build build --target renew_abi. After that the soname must change: a new minor version in CMakeLists.txt")
    print(f"{len(now)} lines are as in {baseline.name}")


main()
