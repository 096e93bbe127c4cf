"""No braced initializer makes g++ 12 destroy members twice.

This happens if an initializer throws after a member that is itself an aggregate was left out, or
was written as `{...}` without its type. Example: `struct Rank { RunSpec spec; World world; }`. If
read() throws, `Rank{.world = read()}` destroys the members of `spec` twice.

This test reads the sources as text. It knows the project's own aggregates. It finds initializers
that name their type or their members, and returned ones.
"""

import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("contract", "runner", "trainer", "tests")
# An initializer may call these. They throw nothing but std::bad_alloc.
HARMLESS = re.compile(
    r"(?<![\w:])(?:std::(?:move|exchange|to_string|string|size|ssize|make_pair|pair|forward|get|chrono::\w+)|"
    r"static_cast|sizeof|name_of|string|path|size|c_str|begin|end|empty|value_or|what|int64_t|double|u8)"
    r"(?:<[^<>]*>)?\s*\(")
CALL = re.compile(r"[\w>\])]\s*\(|\bthrow\b")
# These types have nothing to destroy.
SCALAR = re.compile(r"^(?:const |static |constexpr |mutable )*(?:std::)?(?:u?int\d*(?:_t)?|size_t|bool|char|"
                    r"double|float|long|unsigned|pid_t|std::byte|string_view|std::string_view)\b")

Member = collections.namedtuple("Member", "type name default")


def code_of(file):
    """Returns the file without comments and with empty literals. Line numbers stay the same."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0]) if match[0].startswith("/") else match[0][0] + match[0][0]

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])*\'', blank,
                  file.read_text(), flags=re.S)


def closing(code, opening):
    """Returns the position of the bracket that closes the bracket at `opening`."""
    depth = 0
    for place in range(opening, len(code)):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return len(code)


def split(text, separator):
    """Splits `text` at each separator outside of brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(letter, 0)
        if letter == separator and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return [part for part in (*parts, text[begin:].strip()) if part]


def members_of(name, body):
    """Returns None if the type is not an aggregate."""
    while (function := re.search(r"\)(?:\s*(?:const|noexcept|override))*\s*(?=\{)", body)) is not None:
        body = body[:function.start()] + ");" + body[closing(body, function.end()) + 1:]
    if re.search(rf"(?<![\w~>]){name}\s*\(|\b(?:private|protected):|\bvirtual\b", body):
        return None
    members = []
    for statement in split(body, ";"):
        statement = re.sub(r"^(?:public:|\s)+", "", statement)
        if re.match(r"(?:using|static|friend|template|struct|class|enum|typedef|constexpr)\b", statement):
            continue
        declared, default = re.match(r"([^={]*)(.*)", statement, re.S).groups()
        for declarator in split(declared, ","):
            found = re.match(r"(?:(.*[\s>&*]))?(\w+)(?:\[.*\])?$", declarator.strip(), re.S)
            if found and "(" not in declarator:
                kind = (found[1] or (members[-1].type if members else "")).strip()
                members.append(Member(kind, found[2], default.strip()))
    return members


Aggregate = collections.namedtuple("Aggregate", "folder members")


def read_sources():
    """Returns the code of each file, and the aggregates of each name. An enumeration counts as an
    aggregate without members."""
    sources = {file.relative_to(ROOT): code_of(file) for folder in FOLDERS
               for file in sorted((ROOT / folder).glob("**/*")) if file.suffix in (".h", ".cpp", ".cu", ".cuh")}
    aggregates = collections.defaultdict(list)
    for file, code in sources.items():
        for head in re.finditer(r"\b(struct|class|enum(?: class)?)\s+(\w+)\s*(?::[^;{(]*)?\{", code):
            body = code[head.end():closing(code, head.end() - 1)]
            members = [] if head[1].startswith("enum") else members_of(head[2], body)
            if members is not None:
                aggregates[head[2]].append(Aggregate(file.parent, members))
    return sources, dict(aggregates)


def named(type_name, folder, aggregates):
    """Returns the aggregates that code in `folder` may mean by the name: the folder's own, or else
    all aggregates of this name."""
    found = aggregates.get(re.split(r"::|\s", type_name)[-1], [])
    return [aggregate for aggregate in found if aggregate.folder == folder] or found


def is_nested(member, folder, aggregates, depth=0):
    """True if the member is an aggregate with something to destroy."""
    if re.search(r"[&*<]", member.type) or depth > 8:
        return False
    return any(not SCALAR.match(part.type) and not part.type.endswith(("*", "&")) and
               (not named(part.type, folder, aggregates) or is_nested(part, folder, aggregates, depth + 1))
               for aggregate in named(member.type, folder, aggregates) for part in aggregate.members)


def late_call(text, aggregate, aggregates):
    """Returns the call that comes too late in the initializer `{text}` of the aggregate, or ""."""
    given = {}
    for place, part in enumerate(split(text, ",")):
        designated = re.match(r"\.(\w+)\s*=?\s*(.*)", part, re.S)
        if designated:
            given[designated[1]] = designated[2]
        elif place < len(aggregate.members):
            given[aggregate.members[place].name] = part
    nested = None
    for member in aggregate.members:
        value = given.get(member.name, member.default.lstrip("= "))
        if nested and CALL.search(HARMLESS.sub("", value)):
            return f".{member.name} = {' '.join(value.split())[:60]} after .{nested}"
        in_parts = value.startswith("{") or (member.name not in given and not value.endswith(")"))
        if in_parts and is_nested(member, aggregate.folder, aggregates):
            nested = member.name
    return ""


def initializers(code, folder, aggregates):
    """Yields each braced initializer of an aggregate: its position, its text, and the aggregates
    that it may initialize. If it names no type, these are all aggregates with such members."""
    names = "|".join(map(re.escape, sorted(aggregates)))
    for found in re.finditer(rf"\b({names})(?:\s+\w+)?(?:\s*=)?\s*\{{", code):
        if not re.search(r"\b(?:struct|class|enum)\s+$", code[:found.start()][-12:]):
            text = code[found.end():closing(code, found.end() - 1)]
            for aggregate in named(found[1], folder, aggregates):
                yield found.start(), text, [aggregate]
    for found in re.finditer(rf"\b({names})\s+[\w:]+\([^;{{}}]*\)[\w\s]*\{{", code):
        body = code[found.end():closing(code, found.end() - 1)]
        for returned in re.finditer(r"\breturn\s*\{", body):
            text = body[returned.end():closing(body, returned.end() - 1)]
            for aggregate in named(found[1], folder, aggregates):
                yield found.end() + returned.start(), text, [aggregate]
    for found in re.finditer(r"(?:(?<=[({,=])|\breturn)\s*\{\s*(?=\.\w+\s*[={])", code):
        text = code[found.end():closing(code, code.index("{", found.start()))]
        members = {part[1] for part in map(re.compile(r"\.(\w+)").match, split(text, ",")) if part}
        yield found.start(), text, [aggregate for of_name in aggregates.values() for aggregate in of_name
                                    if members <= {member.name for member in aggregate.members}]


def faults_in(sources, aggregates):
    faults = set()
    for file, code in sources.items():
        for place, text, candidates in initializers(code, file.parent, aggregates):
            found = [late_call(text, aggregate, aggregates) for aggregate in candidates]
            if found and all(found):
                faults.add(f"{file}:{code.count(chr(10), 0, place) + 1}: {found[0]}")
    return sorted(faults)


def test_no_initializer_throws_after_a_nested_aggregate():
    sources, aggregates = read_sources()
    assert len(aggregates) > 500
    assert faults_in(sources, aggregates) == []


def test_each_form_of_the_fault_is_found():
    folder = pathlib.Path("trainer/train")
    aggregates = {"Spec": [Member("std::string", "name", ""), Member("int", "steps", "= 0")],
                  "World": [Member("int", "rank", "= 0")],
                  "Rank": [Member("Spec", "spec", ""), Member("World", "world", "")]}
    aggregates = {name: [Aggregate(folder, members)] for name, members in aggregates.items()}
    for wrong in ("Rank rank{.world = read()};", "take(Rank{.spec = {}, .world = read()});", "Rank rank{{}, read()};",
                  "Rank rank{{.steps = 1}, read()};", "push_back({.world = read()});",
                  "Rank start() { return {{}, read()}; }", "Rank rank = {.world = world.at(1)};"):
        assert len(faults_in({folder / "file": wrong}, aggregates)) == 1, wrong
    for right in ("Rank rank{.spec = read(), .world = {}};", "Rank rank{.spec = spec, .world = read()};", "Rank rank;",
                  "Rank rank{Spec{}, read()};", "Rank rank{.spec = Spec(), .world = read()};",
                  "Rank rank{.spec = std::move(spec), .world = read()};", "Rank rank{.world = std::move(world)};"):
        assert faults_in({folder / "file": right}, aggregates) == [], right
