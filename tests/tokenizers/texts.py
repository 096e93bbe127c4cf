"""Makes varied texts from a seed, equal on every machine."""

import random
import unicodedata

ENGLISH = ("The quick brown fox doesn't jump over the lazy dog; it's 1,234.56 dollars, they'll say, "
           "and we've seen I'm HERE'S 'Tis e.g. U.S.A. co-operate naïve café").split()
SPANISH = ("¿Dónde está la biblioteca? El niño comió piñatas, ¡qué pingüino! corazón año mañana "
           "averigüéis Ünïcödé ªº").split()
CHINESE = "你好世界人工智能模型训练数据，。！？《》「」的一是在不了有和这中大为上个国我以要他時來"
JAPANESE = "こんにちは世界カタカナひらがなアイウエオ漢字ー〜・"
EMOJI = "😀🎉🏳️‍🌈👩‍👩‍👧‍👦👍🏽❤️🇪🇸🇨🇳🧑‍💻🫠✨"
OTHER_SCRIPTS = "Привет мир Ελλάδα שלום עולם مرحبا بالعالم नमस्ते ไทย한국어ქართული አማርኛ ພາສາ"
CODE = ["def f(x):\n    return x ** 2  # squared\n",
        "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n\t}", "<div class=\"a\">&nbsp;</div>\r\n",
        "SELECT * FROM t WHERE id = 42;", "https://example.com/?q=1&r=%20", "\\frac{1}{2}",
        "0xDEADBEEF", "{\"k\": [1, 2.5e-3, null]}", "std::vector<int>()", "a->b", "!!!???", "-----",
        "#include <a.h>", "x=1;y=2", "@user #tag $100 50% 3.14159265358979"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n\n", " \n ", "\u00a0", "\u3000", "\u2028", "\u180e",
          "\u200b", "\ufeff", "        ", " \t ", "\x85", "\x0b", "\x1c"]
MARKS = "\u0301\u0308\u0327\u0323\u0345\u20dd\u0f72\u093f\u0bc6\u1161\u11a8"
LONG_S = ["'ſ", "'S", "'LL", "'Re", "ﬁ", "ß", "İ", "ı", "Å", "Å", "Å", "각", "각", "ﬀ"]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<|eot_id|>", "<|im_start|>", "<|begin_of_text|>", "[INST]",
           "<|endoftext|>", "<extra_id_0>", "<0x41>", "▁", "Ġ", "<|", "|>", "<tool_call>"]


def text(rng: random.Random) -> str:
    """Returns a text of zero to a few hundred characters."""
    return "".join(part(rng) for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 8, 13, 30])))


def part(rng: random.Random) -> str:
    kind = rng.randrange(16)
    if kind < 3:
        return " ".join(rng.choice(ENGLISH) for _ in range(rng.randrange(1, 8)))
    if kind == 3:
        return " ".join(rng.choice(SPANISH) for _ in range(rng.randrange(1, 8)))
    if kind in (4, 5):
        return letters(rng, rng.choice([CHINESE, JAPANESE]), 12)
    if kind == 6:
        return letters(rng, EMOJI, 5)
    if kind == 7:
        return letters(rng, OTHER_SCRIPTS, 12)
    if kind == 8:
        return rng.choice(CODE)
    if kind in (9, 10):
        return rng.choice(SPACES)
    if kind == 11:
        return chr(rng.randrange(0, 0x20)) if rng.random() < 0.5 else rng.choice(LONG_S)
    if kind == 12:
        return rng.choice("aeoÀkॐ가") + letters(rng, MARKS, 3)
    if kind == 13:
        return str(rng.randrange(10**rng.randrange(1, 12)))
    if kind == 14:
        return assigned_character(rng)
    return rng.choice(["x", "ab", "=", "é", "字"]) * rng.choice([2, 7, 100])


def letters(rng: random.Random, alphabet: str, most: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, most)))


def assigned_character(rng: random.Random) -> str:
    """Returns any character that the tables of every library have."""
    while True:
        character = chr(rng.randrange(0x20, rng.choice([0x3000, 0x10000, 0x20000])))
        if unicodedata.category(character) not in ("Cn", "Cs", "Co"):
            return character


def texts(seed: int, count: int, with_special: bool = False) -> list[str]:
    rng = random.Random(seed)
    found = [text(rng) for _ in range(count)]
    if with_special:
        found = [insert(rng, each) for each in found]
    return found


def insert(rng: random.Random, text: str) -> str:
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(SPECIAL) + text[at:]
    return text
