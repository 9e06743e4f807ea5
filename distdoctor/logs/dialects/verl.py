"""Lines of verl."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Mark

# The end of fit() in ray_trainer.py of verl-project/verl: its one controller has saved the last checkpoint. pprint()
# puts a text in quotes, and in parentheses if it is long.
DIALECT = Dialect(success=(Mark("Final validation metrics: ", r"^\(?['\"]Final validation metrics: "),))
