"""A profile as one self-contained HTML page: no script, no network, every foreign word escaped."""

from collections.abc import Sequence

from ridgeline.agent.profiles.document import Judged
from ridgeline.agent.profiles.listing import HEADER, headline, rows, verdicts
from ridgeline.graph.kernel_profile import Recording

SPOTS = 20
TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body{font:14px/1.5 system-ui,sans-serif;max-width:120ch;margin:2em auto;padding:0 1em;color:#1a1a1a;background:#fff}
table{border-collapse:collapse;margin:.5em 0 1.5em}
td,th{padding:.15em .6em;border-bottom:1px solid #ddd;text-align:left}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code,pre{font:12px/1.45 ui-monospace,monospace}
pre{white-space:pre-wrap}.bar{display:inline-block;height:.7em;background:#4a7ebb;vertical-align:baseline}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}td,th{border-color:#333}}
</style></head><body>
<h1>{{ title }}</h1>
{% for recording, header, kernels in tables %}
<h2>{{ header }}</h2>
{% if kernels %}<table><tr>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in kernels %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endif %}
{% for warning in recording.warnings %}<p>warning: {{ warning }}</p>{% endfor %}
{% endfor %}
{% for one, text in kernels %}
<h2>{{ one.profile.display }}</h2>
<p><b>{{ one.bound.bound }}{% if one.bound.subclass %} ({{ one.bound.subclass }}){% endif %}</b>,
{{ one.bound.confidence }} confidence</p>
{% if one.profile.stalls %}<table><tr><th>waits for</th><th class="n">share of {{ one.profile.stalls[0].basis }}</th>
<th></th></tr>
{% for item in one.profile.stalls %}<tr><td>{{ item.stall }}</td><td class="n">{{ "%.1f %%" % (100 * item.share) }}</td>
<td><span class="bar" style="width:{{ "%.2f" % (20 * [0, [1, item.share]|min]|max) }}em"></span></td></tr>{% endfor %}
</table>{% endif %}
<pre>{{ text }}</pre>
{% if one.profile.hotspots %}
<table><tr><th class="n">share</th><th>waits for</th><th>instruction</th><th>source</th></tr>
{% for spot in one.profile.hotspots %}<tr><td class="n">{{ "%.1f %%" % (100 * spot.share) }}</td>
<td>{{ spot.stall or "" }}</td><td><code>{{ spot.isa }}</code></td>
<td><code>{{ spot.source }}</code></td></tr>{% endfor %}
</table>{% endif %}
<table><tr><th>number</th><th class="n">value</th><th>stands on</th><th>source</th></tr>
{% for said in one.profile.numbers %}
<tr><td><code>{{ said.name }}</code></td><td class="n">{{ "%.6g" % said.value }}</td>
<td>{{ said.rung }}</td><td>{{ said.source }}{% if said.corrected %} &mdash; {{ said.corrected }}{% endif %}</td></tr>
{% endfor %}</table>
{% endfor %}
</body></html>
"""


def render(title: str, recordings: Sequence[Recording], kernels: Sequence[Judged]) -> str:
    """The page. `title` and everything out of the recordings may hold any text."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE).render(
        title=title,
        columns=HEADER,
        tables=[(recording, headline(recording), rows(recording)) for recording in recordings],
        kernels=[(one, "\n".join(verdicts((one,)))) for one in kernels],
    )
