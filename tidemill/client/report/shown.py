"""A report as a notebook shows it."""

from __future__ import annotations

from html import escape

from tidemill.client.report.model import JobReport
from tidemill.client.report.page import page_of


class ShownReport(JobReport):
    """A report that a notebook shows as its page: in a frame of its own, which runs nothing."""

    def _repr_html_(self) -> str:
        frame = 'sandbox="" style="width:100%;height:640px;border:0"'
        return f'<iframe {frame} title="{escape(self.job)}" srcdoc="{escape(page_of(self))}"></iframe>'
