"""What tests of faults share: a model with a large file, faults of the hub, and the check of a refused fetch."""
import os

from conftest import MODEL, model_files
from hub import Repository

WANTED = set(model_files())
SHARD = "model-00001-of-00002.safetensors"


def large_model(workplace, large_bytes=3_000_000):
    """Makes a model with one large file, which is sent in many pieces."""
    files = {"config.json": model_files()["config.json"], "model.safetensors": os.urandom(large_bytes)}
    workplace.hub.repositories[MODEL] = Repository(files)
    return files


def hash_of_large_file(workplace):
    [entry] = [entry for entry in workplace.hub.repositories[MODEL].tree("", False) if "lfs" in entry]
    return entry["lfs"]["oid"]


def place_of_part(workplace):
    """Returns the path of the incomplete download of the large file."""
    return workplace.repository() / "blobs" / f"{hash_of_large_file(workplace)}.incomplete"


def cdn_ranges(workplace):
    return [headers.get("Range") for server, _, _, headers in workplace.hub.requests if server == "cdn"]


def first(count, answer):
    """Returns a fault that calls `answer` for the first `count` requests only."""
    left = [count]

    def fault(request):
        if left[0] == 0:
            return False
        left[0] -= 1
        answer(request)
        return True
    return fault


def to(part, answer):
    """Returns a fault that calls `answer` for requests with this part of a path."""
    return lambda request: part in request.path and not answer(request)


def answering(status, body=b"", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: request.send_text(status, body, named)


def part_of_file(request, sent_bytes, end):
    data = request.hub.blobs[request.path.strip("/")]
    request.begin(200, len(data))
    request.wfile.write(data[:sent_bytes])
    end(request)


def refused(workplace, *texts, code, **environment):
    """Checks that a fetch ends with this code and these texts, and leaves nothing that a run would
    use."""
    ended = workplace.fetch(status=code, **environment)
    for text in texts:
        assert text in ended.stderr, ended.stderr
    workplace.check_nothing_wrong()
    assert "is not in" in workplace.run(status=None, **environment).stderr
    return ended
