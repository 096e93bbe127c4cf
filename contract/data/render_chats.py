"""Writes chats as the chat template of a tokenizer does. The programs start it with this text as an argument; it needs
jinja2 only. Each line of its input and of its output is an object of JSON.

The first line has `template` and `variables`, such as bos_token. The answer is {}, {error}, or without jinja2
{missing}. Each later line has `messages`, a list of {role, content, is_trained_on}. The answer is {text, trained, is_exact}, or {error}. `trained` lists [begin, end) in bytes of
UTF-8: where `text` has what the model shall learn. If the template says so itself, by `{% generation %}` as
transformers knows it, `is_exact` is true. Else the chat is written again with a mark on each side of what is trained
on, and the places of the marks tell it; a template that writes anything else for a marked chat is an error.

The environment is that of transformers' apply_chat_template, sandboxed, but a template's strftime_now is always the
same day, so that equal data gives equal tokens. A chat may take SECONDS of a processor, and all of this BYTES of memory.
"""
import json
import re
import resource
import signal
import sys
from datetime import datetime

try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as error:
    print(json.dumps({"missing": f"{sys.executable} says: {error}"}))
    sys.exit(1)

SECONDS = 10
BYTES = 2 << 30
TODAY = datetime(2024, 7, 26)  # which Llama 3's template takes where there is no strftime_now
MARKS = range(0xF0000, 0xFFFFE)  # private use: no text has a meaning for them
OF_REASONING = re.compile("(</?think>)")  # by which templates take an answer apart


class Refused(Exception):
    """What a user is told of a chat."""


class Generation(jinja2.ext.Extension):
    """`{% generation %}`, whose text is written between marks while there is a list of them to take from."""

    tags = {"generation"}
    marks = None
    was_met = False

    def parse(self, parser):
        self.was_met = True
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller):
        text = caller()
        if self.marks is None or not text:
            return text
        mark = next(self.marks)
        return mark + text + mark


def refuse(message):
    raise Refused(message)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = lambda value, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = TODAY.strftime
    return made


def marked_inside(text, mark):
    """`text` with marks next to its white space, as templates strip it."""
    bare = text.strip()
    begin = text.find(bare)
    return text[:begin] + mark + bare + mark + text[begin + len(bare):]


def marked_outside(text, mark):
    return mark + text + mark


def marked(messages, marks, place):
    """The messages, each answer with a mark of its own around each of its parts."""
    result = []
    for message in messages:
        if message["is_trained_on"] and message["content"].strip():
            mark = next(marks)
            parts = [part if OF_REASONING.fullmatch(part) or not part.strip() else place(part, mark)
                     for part in OF_REASONING.split(message["content"])]
            message = {**message, "content": "".join(parts)}
        result.append(message)
    return result


def unmarked(text, marks):
    """The text without marks, and for each mark the [begin, end) in bytes from its first place to its last."""
    parts = re.split(f"([{chr(marks[0])}-{chr(marks[-1])}])", text)
    places = {}
    at = 0
    for part, mark in zip(parts[::2], parts[1::2]):
        at += len(part.encode())
        places.setdefault(mark, []).append(at)
    if any(len(each) % 2 for each in places.values()):
        return None, []
    return "".join(parts[::2]), [[each[0], each[-1]] for each in places.values()]


class Template:
    def __init__(self, template, variables):
        self.environment = environment()
        self.generation = next(each for each in self.environment.extensions.values() if isinstance(each, Generation))
        self.template = self.environment.from_string(template)
        self.variables = variables

    def render(self, messages):
        without_flags = [{"role": each["role"], "content": each["content"]} for each in messages]
        return self.template.render(messages=without_flags, tools=None, documents=None, add_generation_prompt=False,
                                    **self.variables)

    def write(self, messages):
        self.generation.marks = None
        text = self.render(messages)
        marks = unused_marks(text, messages)
        for render in self.ways_to_mark(messages, marks):
            plain, trained = unmarked(render(), marks)
            if plain == text:
                return {"text": text, "trained": trained, "is_exact": self.generation.was_met}
        raise Refused("it writes other text if the begin and the end of an answer are marked, so that it is not known "
                      "which tokens are the answer's; needed: {% generation %} in the template, or data.format")

    def ways_to_mark(self, messages, marks):
        if self.generation.was_met:
            self.generation.marks = map(chr, marks)
            return [lambda: self.render(messages)]
        return [lambda place=place: self.render(marked(messages, map(chr, marks), place))
                for place in (marked_outside, marked_inside)]


def unused_marks(text, messages):
    """The marks behind the last one that the chat has: none of these stands in it."""
    there = re.findall(f"[{chr(MARKS[0])}-{chr(MARKS[-1])}]", text + "".join(each["content"] for each in messages))
    first = max((ord(mark) + 1 for mark in there), default=MARKS.start)
    if MARKS.stop - first < len(messages) + 1000:
        raise Refused("the chat has the last characters of the private use area U+F0000 to U+FFFFD, which mark answers")
    return range(first, MARKS.stop)


def problem_of(error):
    if isinstance(error, MemoryError):
        return f"it takes more than {BYTES >> 30} GiB of memory"
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.message} (line {error.lineno} of the template)"
    return str(error) if isinstance(error, Refused) else f"it fails with {type(error).__name__}: {error}"


def stop(*_):
    raise Refused(f"it takes more than {SECONDS} s")


def answer(make):
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        return json.dumps(make(), ensure_ascii=False).encode()
    except Exception as error:
        return json.dumps({"error": problem_of(error)}).encode()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main():
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGVTALRM, stop)
    template = None

    def make(question):
        nonlocal template
        if template:
            return template.write(question["messages"])
        template = Template(question["template"], question["variables"])
        return {}

    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(answer(lambda: make(json.loads(line))) + b"\n")
        sys.stdout.buffer.flush()


main()
