"""A little text of several kinds, to see how large the activations of a model become.

Written for this package. What matters is variety: prose, speech, numbers, code, lists, other
scripts, single words; the figures in README come from texts that are not here.
"""

from __future__ import annotations

CALIBRATION_TEXTS = (
    "The harbour lay quiet under a thin fog. Two fishermen mended their nets on the quay, and an "
    "old woman in a green coat counted the boats as she had done every morning for thirty years. "
    '"One is missing," she said at last, though nobody had asked her. The younger man looked up, '
    "shaded his eyes, and laughed. He knew that boat; it would come back when it pleased, as its "
    "owner did, with a hold full of mackerel and a story that nobody believed.",
    "Methods. We followed 412 adults (mean age 58.3 years, 51 % women) for 24 months after "
    "surgery. The primary endpoint was all-cause mortality; secondary endpoints were infection, "
    "length of stay and readmission within 30 days. Results. Mortality was 4.1 % in the treated "
    "group and 6.8 % in the control group (hazard ratio 0.59, 95 % CI 0.36 to 0.97; p = 0.04). "
    "Conclusion. Early treatment may reduce mortality, but larger trials are needed.",
    "Marketing: Okay, so, um, shall we start with the minutes of the last meeting? Project "
    "manager: Yes, please. Industrial designer: I thought we had decided on the rubber case, "
    "didn't we? Marketing: Mm-hmm, but the budget is twelve fifty per unit, so... no. User "
    "interface: Right, right. And the display, do we keep it? Project manager: Let's vote on that "
    "after lunch.",
    'def moving_average(values, width=3):\n    """The mean of each run of `width` values."""\n'
    "    if width < 1:\n        raise ValueError(f'width={width} must be at least 1')\n    total = "
    "sum(values[:width])\n    for i in range(width, len(values)):\n        yield total / width\n"
    "        total += values[i] - values[i - width]\n    # see https://example.org/docs?id=42#top",
    "## Installation\n\n1. Download the archive and unpack it.\n2. Run `./configure --prefix=/opt` "
    "and then `make install`.\n3. Set PATH, or call the program by its full name.\n\n* The server "
    "listens on port 8080; change that in settings.json.\n* Logs are kept for 14 days.\n\n| option "
    "| default |\n|---|---|\n| timeout_s | 30 |\n| retries | 5 |",
    "Article 7. The parties shall, within ninety days of the date on which this agreement enters "
    "into force, exchange the instruments referred to in article 3, paragraph 2 (b), unless a "
    "shorter period has been agreed in writing. Failure to do so shall not, by itself, be "
    "construed as a waiver of any right under this agreement.",
    "The treaty of 1763 ended a war that had been fought on five continents. France gave up nearly "
    "all its land in North America; Spain received Louisiana and lost Florida; Britain, deep in "
    "debt, began to tax its colonies. Historians from Lyon to Boston have argued ever since "
    "whether the peace made the revolution of 1776 inevitable.",
    "Der Fluss fließt langsam durch die Stadt. Les enfants jouent près de la fontaine. El tren "
    "sale a las ocho y media. Il gatto dorme sul tetto. Быстрая лиса бежит через лес. "
    "河流流向大海。これは短い文章です。 النهر يجري إلى البحر. नदी समुद्र की ओर बहती है।",
    "what causes rising damp in old brick houses",
    "who was the second person to walk on the moon?",
    "invoice 2023-0417 overdue reminder",
    "sourdough",
)
