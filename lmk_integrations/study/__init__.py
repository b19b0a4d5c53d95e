"""`lmk bench pooling`: the claim of "LMK > CLS" on the scale of one machine. Needs ``bench``."""

from lmk_integrations.study.run import StudyResult, run_study
from lmk_integrations.study.settings import STUDY_POOLINGS, StudySettings

__all__ = ["STUDY_POOLINGS", "StudyResult", "StudySettings", "run_study"]
