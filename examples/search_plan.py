"""Search a plan for a network on an emulated accelerator, and write the report to look at.

    python examples/search_plan.py [REPORT]

A calibration of 150 measurements keeps this short; `autotune calibrate` takes more by default.
"""

import sys
from pathlib import Path

import autotune
from autotune.report.from_search import write_report

report = Path(sys.argv[1] if len(sys.argv) > 1 else "report.html")
machine = autotune.target("edge")

calibration = autotune.calibrate(machine, budget=150, models=["mlp"])
print(f"mean error of the cost model: {calibration.metrics['mape']:.1%}")

result = autotune.search("mlp", machine, trials=40, measure=40, out=report.with_suffix(".plan"))
for name, plan in (("unfused", result.unfused), ("found", result.found)):
    print(f"{name}: {len(plan.groups)} groups, {plan.measured_cycles:,} cycles")

write_report(result, machine.spec, report)
print(f"open {report} in a browser; run the plan: autotune run {report.with_suffix('.plan')}")
