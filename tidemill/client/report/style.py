"""The style sheet of a report: light and dark, narrow and wide, on screen and on paper.

Series have the colours of Okabe and Ito, which people with any colour vision can tell apart
(https://jfly.uni-koeln.de/color/); what failed is hatched as well. Text has a contrast of at least 4.5:1.
"""

STYLE = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b1f24;--soft:#57606a;--rule:#d8dee4;--link:#0550ae;
--s0:#0072b2;--s1:#e69f00;--s2:#009e73;--s3:#cc79a7;--s4:#56b4e9;--s5:#b8a800;--s6:#7f8790;--bad:#b83a00;--good:#116329}
@media (prefers-color-scheme:dark){:root{--page:#0d1117;--card:#161b22;--ink:#e6edf3;--soft:#9da7b3;--rule:#30363d;
--link:#79c0ff;--s0:#3d9be0;--s5:#f0e442;--s6:#8b949e;--bad:#ff8f5a;--good:#56d364}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:24px;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:16px;margin:0 0 2px}
p{margin:0 0 8px}
.soft,caption,figcaption{color:var(--soft)}
.state{display:inline-block;padding:1px 10px;border:1px solid;border-radius:12px;font-size:14px;font-weight:600;
vertical-align:4px;white-space:nowrap}
.succeeded{color:var(--good)}.failed,.cancelled,.lost{color:var(--bad)}.running,.waiting,.paused{color:var(--link)}
.remark{border-left:4px solid var(--s1);padding:6px 12px;margin:12px 0;background:var(--card);overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:16px 0;padding:0}
.tiles div,section{background:var(--card);border:1px solid var(--rule);border-radius:8px}
.tiles div{padding:8px 12px}
.tiles dt{color:var(--soft);font-size:13px}
.tiles dd{margin:0;font-size:20px;font-weight:600;line-height:1.3}
.tiles small{display:block;color:var(--soft);font-size:13px;font-weight:400}
.panels{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:14px}
section{padding:12px 14px;min-width:0;break-inside:avoid}
section.wide{grid-column:1/-1}
section p{font-size:14px;overflow-wrap:anywhere}
figure{margin:6px 0 0}
svg{display:block;width:100%;max-width:560px;height:auto}
.t{font:11px system-ui,sans-serif;fill:var(--soft)}.b{fill:var(--ink)}
.g{stroke:var(--rule);stroke-width:1;fill:none}
.c{stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}.c.s0{stroke:var(--s0)}.c.s1{stroke:var(--s1)}
.c.s2{stroke:var(--s2)}.c.s3{stroke:var(--s3)}.c.s4{stroke:var(--s4)}.c.s5{stroke:var(--s5)}.c.s6{stroke:var(--s6)}
.l{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:5 4;fill:none}
.m{stroke:var(--ink);stroke-width:1.4;stroke-dasharray:2 3;fill:none}
.s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}.s3{fill:var(--s3)}.s4{fill:var(--s4)}.s5{fill:var(--s5)}
.s6{fill:var(--s6)}.c.c{fill:none}.f{fill:url(#hatch)}
.key{list-style:none;margin:6px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:2px 14px;font-size:13px}
.key svg{display:inline-block;width:12px;height:12px;margin-right:5px;vertical-align:-1px}
details{margin-top:8px;font-size:14px}
summary{cursor:pointer;color:var(--link)}
.scroll{overflow-x:auto;margin:6px 0 8px}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}
th,td{text-align:left;padding:3px 12px 3px 0;border-bottom:1px solid var(--rule);vertical-align:top;white-space:nowrap}
th{color:var(--soft);font-weight:600}
td.n,th.n{text-align:right}
td.w{min-width:16em;white-space:normal;overflow-wrap:anywhere}
code{font:.95em ui-monospace,monospace;overflow-wrap:anywhere}
ol.advice{margin:4px 0 0;padding-left:20px}
ol.advice li{margin-bottom:4px}
ol.advice code{font-weight:700}
@media (max-width:719px){.panels{grid-template-columns:minmax(0,1fr)}h1{font-size:20px}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}.tiles dd{font-size:18px}main{padding:14px 12px 32px}}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--ink:#000;--soft:#444;--rule:#bbb;--link:#000;
--s0:#0072b2;--s5:#b8a800;--s6:#7f8790;--bad:#b83a00;--good:#116329}
body,section p,.key,details{font-size:11px}h2{font-size:13px}
.tiles dd{font-size:15px}.tiles small,.tiles dt{font-size:10px}main{max-width:none;padding:0}
.panels{grid-template-columns:repeat(2,minmax(0,1fr))}summary{display:none}svg,rect{print-color-adjust:exact;
-webkit-print-color-adjust:exact}.scroll{overflow:visible}table{font-size:10px}}
"""

HATCH = (
    '<svg width="0" height="0" aria-hidden="true" style="position:absolute"><defs><pattern id="hatch" width="5" '
    'height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="5" height="5" '
    'fill="var(--bad)"/><path d="M0 0V5" stroke="var(--card)" stroke-width="2"/></pattern></defs></svg>'
)
"""The filling of what failed."""
