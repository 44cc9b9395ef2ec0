"""The HTML report of runs, its figures, their export, the live server and progress bars.

Numbers are computed in `eunoe.analysis` and `eunoe.metrics`, not here. The type to know is
`figures.charts.Figure`: a chart with its title and caption.
"""
