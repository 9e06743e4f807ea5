"""Lines of torch_npu, and of Ascend's CANN and HCCL below it."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, OwnWords

# formatErrorCode() of torch_npu/csrc/core/npu/NPUException.cpp of Ascend/pytorch, 2.1 to 2.7: it knows no rank (-1)
# before the group is made. CANN writes its error below torch_npu's: "EJ0003: [PID: 7] TIME text" up to 8.2, "[PID: 7]
# TIME Title(EJ0003): text" since; "Inner Error!" stands before the text of EE9999.
_CODE = rb"(?:\bE[A-Z]\d{4}: (?!Inner Error)|\b\w{1,60}\(E[A-Z]\d{4}\): )"
DIALECT = Dialect(
    places=(r"\(PID:(?P<pid>\d{1,9}), Device:-?\d{1,4}, RankID:(?P<rank>\d{1,6})\)",),
    own_words=OwnWords(
        "CANN",
        r"\bE[A-Z]\d{4}\b|HCCL function error|HCCL error in|call hccl api failed|OPS function error: Hccl",
        below=rb"(%s[^\n]{3,400})" % _CODE,
        advice=rb"\bSolution: ([^\n]{3,600})",
    ),
)
