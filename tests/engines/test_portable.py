"""An exception that is sent arrives as itself, or as its trace."""

import pickle

from eunoe.engines.portable import portable
from eunoe.errors import ClientError
from tests.faults import OwnError


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_it_arrives_as_itself_with_where_it_came_from() -> None:
    error = raised(OwnError("a", 3))
    error.add_note("client 4")
    sent = pickle.loads(pickle.dumps(portable(error)))
    assert isinstance(sent, OwnError)
    assert sent.code == 3
    assert sent.__notes__[0] == "client 4"
    assert "in raised" in sent.__notes__[1]


def test_what_cannot_be_sent_arrives_as_its_trace() -> None:
    class Local(Exception):
        pass

    error = raised(Local("deep"))
    error.add_note("client 4")
    sent = pickle.loads(pickle.dumps(portable(error)))
    assert isinstance(sent, ClientError)
    assert "Local: deep" in str(sent)
    assert "client 4" in str(sent)
