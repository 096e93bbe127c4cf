"""Writes chats with a tokenizer's chat template. The programs start Python with this text as an
argument. It needs only jinja2. Each line of input and output is a JSON object.

The first input line has `template` and `variables`, such as bos_token. Its answer is {}, {error},
or {missing} if Python has no usable jinja2. Each later line has `messages`, a list of {role,
content, is_trained_on}. Its answer is {text, trained, is_exact}, or {error}. `trained` lists the
parts of `text` that the model learns, as [begin, end) in bytes of UTF-8.

A template may name these parts itself with `{% generation %}`, a tag of transformers. Then
`is_exact` is true. Otherwise the parts are the answers, which are the messages with is_trained_on.
An answer also includes what the template writes between its generation prompt and the message. To
find the parts, the chat is written a second time, with a pair of marks around each. A template that
changes, repeats or drops a marked answer is an error.

The jinja2 environment equals that of transformers' apply_chat_template, which is sandboxed. It has
no current date and no random numbers, so equal data gives equal tokens. A chat may take SECONDS of
CPU time, and the process may take BYTES of memory.
"""
import json
import re
import resource
import signal
import sys
from datetime import datetime

NEEDED = (3, 1, 6)  # templates can escape the sandbox of older versions
try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    if tuple(int(part) for part in re.findall(r"\d+", jinja2.__version__)[:3]) < NEEDED:
        raise ImportError(f"jinja2 is {jinja2.__version__}; needed: 3.1.6, or later")
except ImportError as error:
    print(json.dumps({"missing": f"{sys.executable} says: {error}"}))
    sys.exit(1)

SECONDS = 10
BYTES = 2 << 30
MOST_TEXT = 64 << 20  # characters
TODAY = datetime(2024, 7, 26)  # Llama 3's template has this date if strftime_now is undefined
MARKS = range(0xF0000, 0xFFFFE)  # private use: no text has a meaning for them
OF_OBJECT = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")  # Python's text for an object without one of its own
OF_REASONING = re.compile("(</?think>)")  # templates split an answer at these tags


class Refused(Exception):
    """The chat or the template cannot be used. The text is for the user."""


class OutOfTime(BaseException):
    """Not an Exception, because jinja2 catches those while it compiles, and continues."""


class Generation(jinja2.ext.Extension):
    """The tag `{% generation %}`. Its text is written between two marks unless `marks` is None."""

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
        self.marks.begin_answer()
        return self.marks.around(text)


def refuse(message):
    raise Refused(message)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = lambda value, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = TODAY.strftime
    del made.filters["random"], made.globals["lipsum"]
    return made


class Marks:
    """Pairs of characters that do not occur in the chat. The n-th pair is written around the n-th
    part to find. An answer has one or more parts."""

    def __init__(self, chat):
        there = re.findall(f"[{chr(MARKS[0])}-{chr(MARKS[-1])}]", chat)
        self.first = max((ord(mark) + 1 for mark in there), default=MARKS.start)
        self.pattern = re.compile(f"([{chr(self.first)}-{chr(MARKS[-1])}])")
        self.answers = []  # the number of the answer, for each pair
        self.answer = -1

    def begin_answer(self):
        self.answer += 1

    def around(self, text):
        begin = self.first + 2 * len(self.answers)
        if begin + 1 not in MARKS:
            raise Refused(f"it has more than {len(self.answers)} parts to mark: too many turns")
        self.answers.append(self.answer)
        return chr(begin) + text + chr(begin + 1)

    def found_in(self, text):
        """Returns the text without marks, and for each answer [begin, end) from its first pair to
        its last. The text is None if a mark is repeated, has no partner, or is out of order."""
        parts = self.pattern.split(text)
        places = []
        at = 0
        for part, mark in zip(parts[::2], parts[1::2]):
            at += len(part)
            places.append((ord(mark) - self.first, at))
        ranges = {}
        last = -1
        for (mark, begin), (other, end) in zip(places[::2], places[1::2]):
            if mark % 2 or other != mark + 1 or mark <= last:
                return None, {}
            last = mark
            answer = self.answers[mark // 2]
            ranges[answer] = (ranges.get(answer, (begin,))[0], end)
        if len(places) % 2:
            return None, {}
        return "".join(parts[::2]), ranges


def outside(text, marks):
    return marks.around(text)


def inside(text, marks):
    """Puts the marks inside the white space around the text, because templates strip it."""
    bare = text.strip()
    begin = text.find(bare)
    return text[:begin] + marks.around(bare) + text[begin + len(bare):]


def in_parts(place):
    """Applies `place` to each part of an answer that templates may split at OF_REASONING."""
    return lambda text, marks: "".join(
        part if OF_REASONING.fullmatch(part) or not part.strip() else place(part, marks)
        for part in OF_REASONING.split(text))


class Template:
    def __init__(self, template, variables):
        self.environment = environment()
        self.generation = next(each for each in self.environment.extensions.values() if isinstance(each, Generation))
        self.source = template
        self.template = self.environment.from_string(template)
        self.variables = variables
        self.prompt = self.generation_prompt()

    def render(self, messages, add_generation_prompt=False):
        without_flags = [{"role": each["role"], "content": each["content"]} for each in messages]
        text = self.template.render(messages=without_flags, tools=None, documents=None,
                                    add_generation_prompt=add_generation_prompt, **self.variables)
        if len(text) > MOST_TEXT:
            raise Refused(f"it writes more than {MOST_TEXT} characters")
        known = [self.source, *(each["content"] for each in messages)]
        for found in OF_OBJECT.findall(text):
            if not any(found in each for each in known):
                raise Refused(f"it writes {found}, a Python object, which is another text in each process")
        return text

    def generation_prompt(self):
        """Returns what the template adds to a chat that the model is to continue."""
        question = [{"role": "user", "content": "x"}]
        try:
            chat, asked = self.render(question), self.render(question, add_generation_prompt=True)
        except Exception:  # the template refuses this chat
            return ""
        return asked[len(chat):] if asked.startswith(chat) else ""

    def write(self, messages):
        self.generation.marks = None
        text = self.render(messages)
        trained = self.ranges_of_generation(text, messages) if self.generation.was_met else self.ranges_of_answers(
            text, messages)
        return {"text": text, "trained": in_bytes(text, trained), "is_exact": self.generation.was_met}

    def ranges_of_generation(self, text, messages):
        self.generation.marks = marks = marks_for(text, messages)
        plain, ranges = marks.found_in(self.render(messages))
        if plain != text:
            raise Refused("it changes what {% generation %} writes, so that it is not known what is trained on")
        return sorted(ranges.values())

    def ranges_of_answers(self, text, messages):
        answers = [message for message in messages if message["is_trained_on"]]
        has_empty = any(not message["content"].strip() for message in answers)
        ways = [(outside, True), (inside, True)] * has_empty + [(outside, False), (in_parts(outside), False), (in_parts(inside), False)]
        for place, marks_empty in ways:
            marks = marks_for(text, messages)
            plain, ranges = marks.found_in(self.render(marked(messages, marks, place, marks_empty)))
            if plain == text:
                missing = next((number for number, message in enumerate(answers)
                                if number not in ranges and message["content"].strip()), None)
                if missing is None:
                    return self.from_prompts(text, [ranges[number] for number in sorted(ranges)])
        raise Refused("it changes, repeats or leaves out an answer, so that it is not known which of the text is the "
                      "answer's; needed: {% generation %} in the template, or data.format")

    def from_prompts(self, text, ranges):
        """Begins each range at the end of the generation prompt, if there is one between it and the
        range before."""
        result = []
        after = 0
        for begin, end in ranges:
            at = text.rfind(self.prompt, after, begin) if self.prompt.strip() else -1
            result.append((begin if at < 0 else at + len(self.prompt), end))
            after = end
        return result


def marks_for(text, messages):
    return Marks(text + "".join(message["content"] for message in messages))


def marked(messages, marks, place, marks_empty):
    """Returns the messages with marks in each answer."""
    result = []
    for message in messages:
        if message["is_trained_on"]:
            marks.begin_answer()
            if message["content"].strip() or marks_empty:
                message = {**message, "content": place(message["content"], marks)}
        result.append(message)
    return result


def in_bytes(text, ranges):
    result = []
    at = size = 0
    for place in (place for each in ranges for place in each):
        size += len(text[at:place].encode())
        at = place
        result.append(size)
    return list(zip(result[::2], result[1::2]))


def line_of(error):
    """Returns the template's line that failed, as text."""
    line = None
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line} of the template)" if line else ""


def problem_of(error):
    if isinstance(error, OutOfTime):
        return f"it takes more than {SECONDS} s"
    if isinstance(error, MemoryError):
        return f"it takes more than {BYTES >> 30} GiB of memory"
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.message} (line {error.lineno} of the template)"
    return str(error) if isinstance(error, Refused) else f"it fails with {type(error).__name__}: {error}{line_of(error)}"


def stop(*_):
    raise OutOfTime


def answer(make):
    # Python calls stop() only between two operations. SIGPROF has no handler, so it ends this
    # process even if one operation never ends.
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, 1)
    signal.setitimer(signal.ITIMER_PROF, 2 * SECONDS)
    try:
        return json.dumps(make(), ensure_ascii=False).encode()
    except (Exception, OutOfTime) as error:
        return json.dumps({"error": problem_of(error)}).encode()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def main():
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = BYTES if most == resource.RLIM_INFINITY else min(BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
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
