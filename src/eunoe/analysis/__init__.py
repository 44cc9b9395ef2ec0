"""Analysis of the records of runs: summary, comparison over seeds and clients, divergence, diagnosis.

Everything takes `RunRecords` (store/run_records.py), the one type to know, and returns numbers, sentences or
a `Table`; statistics.py has the only confidence intervals. Not here: figures and pages (report/), searches
that run something (search/).
"""
