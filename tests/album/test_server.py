"""The page's answers, and who gets none: other names, other pages, paths out of the album, bombs."""

import os
import shutil
import signal
import subprocess
import sys

import cv2
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from tests.album.photos import folder_of, scene, write_scene
from tests.album.site import Served, serving
from tests.features.test_hostile import png_bomb


@pytest.fixture(scope="module")
def site(made, tmp_path_factory):
    root = tmp_path_factory.mktemp("served") / "photos"
    shutil.copytree(made, root)
    with serving(root) as served:
        served.root = root
        yield served


def jpeg(image):
    return cv2.imencode(".jpg", image)[1].tobytes()


def test_the_page_is_whole_and_asks_nobody_else(site):
    status, headers, body = site.ask("/")
    assert status == 200
    text = body.decode()
    assert "<title>" in text
    assert not [word for word in ("https://", "//cdn", "@import", 'src="http') if word in text]
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_a_picture_that_is_sent_finds_its_original(site):
    status, _, found = site.ask("/api/find?k=5", "POST", jpeg(scene(3)[3:, 3:]))
    assert status == 200
    assert found[0]["path"] == "0/003.jpg"
    assert len(found) == 5
    own = (site.root / "0" / "003.jpg").read_bytes()
    assert site.ask("/api/find?k=1", "POST", own)[2] == [found[0] | {"score": 1.0}]
    status, _, like = site.ask(f"/api/like/{found[0]['id']}?k=4")
    assert status == 200
    assert like[0] == found[0] | {"score": 1.0}


def test_photos_and_thumbnails(site):
    _, _, photos = site.ask("/api/photos")
    assert [photo["path"] for photo in photos] == sorted(f"{i % 3}/{i:03d}.jpg" for i in range(30))
    assert site.ask("/api/photos?start=30")[2] == []
    for photo in photos[:3]:
        status, headers, data = site.ask(f"/thumbnail/{photo['id']}")
        assert (status, headers["content-type"]) == (200, "image/jpeg")
        small = cv2.imdecode(np.frombuffer(data, np.uint8), 1)
        assert small.shape == (photo["height"], photo["width"], 3)
        assert site.ask(f"/thumbnail/{photo['id']}")[2] == data
        status, headers, data = site.ask(f"/photo/{photo['id']}")
        assert (status, data) == (200, (site.root / photo["path"]).read_bytes())


def test_what_is_not_there_is_said(site):
    for path in ("/photo/999999", "/thumbnail/999999", "/api/like/999999", f"/photo/{10**25}"):
        assert site.ask(path)[0] == 404, path
    assert site.ask("/api/photos?start=-1")[0] == 400
    assert site.ask("/api/like/1?k=0")[0] == 400
    assert site.ask("/api/like/1?k=abc")[0] == 400
    assert site.ask("/api/update")[0] == 405


@pytest.mark.parametrize(
    "path",
    ["/photo/../../etc/passwd", "/photo/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/photo/0/000.jpg", "//etc/passwd",
     "/thumbnail/..%2f..%2falbum.sqlite", "/.projbank/album.sqlite", "/photo/-1", "/photo/1%00"],
)  # fmt: skip
def test_paths_lead_nowhere(site, path):
    assert site.ask(path)[0] in (400, 404)


def test_links_and_changed_files_are_not_served(made, tmp_path):
    root = tmp_path / "photos"
    shutil.copytree(made, root)
    secret = tmp_path / "secret.jpg"
    write_scene(secret, 800)
    with serving(root) as site:
        photos = {photo["path"]: photo["id"] for photo in site.ask("/api/photos")[2]}
        link = root / "0" / "000.jpg"
        status = link.stat()
        secret.write_bytes(secret.read_bytes().ljust(status.st_size, b"\0")[: status.st_size])
        os.utime(secret, ns=(status.st_atime_ns, status.st_mtime_ns))  # as much like the photo as can be
        link.unlink()
        link.symlink_to(secret)
        write_scene(root / "1" / "001.jpg", 801)
        for path in ("0/000.jpg", "1/001.jpg"):
            assert site.ask(f"/photo/{photos[path]}")[0] == 404
            assert site.ask(f"/thumbnail/{photos[path]}")[0] == 404


def test_other_names_and_other_pages_get_nothing(site):
    own = f"127.0.0.1:{site.port}"
    assert site.ask("/api/photos", headers={"Host": f"localhost:{site.port}"})[0] == 200
    for host in ("evil.example", f"evil.example:{site.port}", "127.0.0.1", f"127.0.0.1.evil.example:{site.port}", ""):
        assert site.ask("/api/photos", headers={"Host": host})[0] in (400, 421), host
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://evil.example:{site.port}"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert site.ask("/api/update", "POST", headers=headers)[0] == 403, headers
        assert site.ask("/photo/1", headers=headers)[0] == 403
    assert site.ask("/api/photos", headers={"Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"})[0] == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 422),
        (b"no picture", 422),
        (b"\xff\xd8\xff" + bytes(1000), 422),
        (png_bomb(30_000, 30_000), 422),
        (bytes((32 << 20) + 1), 413),
    ],
    ids=["nothing", "text", "damaged", "bomb", "long"],
)
def test_bad_uploads_are_refused(site, data, status):
    code, _, answer = site.ask("/api/find", "POST", data)
    assert code == status
    assert answer["error"]
    assert site.ask("/api/status")[0] == 200


def test_elsewhere_only_with_the_token(made):
    with serving(made, token="s3cret") as site:
        for path in ("/", "/api/photos", "/photo/1", "/?token=wrong", "/?token="):
            assert site.ask(path)[0] == 401, path
        assert site.ask("/api/photos", headers={"Cookie": "projbank_token=wrong"})[0] == 401
        status, headers, _ = site.ask("/?token=s3cret")
        assert (status, headers["location"]) == (303, "/")
        assert "httponly" in headers["set-cookie"].lower()
        assert "samesite=strict" in headers["set-cookie"].lower()
        cookie = headers["set-cookie"].split(";")[0]
        assert site.ask("/api/photos", headers={"Cookie": cookie, "Host": "nas.local"})[0] == 200
        assert site.ask("/api/photos", headers={"Cookie": cookie, "Origin": "http://evil.example"})[0] == 403


def test_an_update_runs_behind_the_page(tmp_path):
    root = folder_of(tmp_path / "photos", 8)
    with serving(root, update_first=True) as site:
        site.wait()
        status = site.ask("/api/status")[2]
        assert (status["photos"], status["work"]["error"]) == (8, "")
        write_scene(root / "new.jpg", 400)
        (root / "bad.jpg").write_bytes(b"bad")
        assert site.ask("/api/update", "POST")[2] == {"started": True}
        site.wait()
        status = site.ask("/api/status")[2]
        assert status["photos"] == 9
        assert [problem["path"] for problem in status["problems"]] == ["bad.jpg"]
        (new,) = site.ask("/api/find?k=1", "POST", (root / "new.jpg").read_bytes())[2]
        assert new["path"] == "new.jpg"
        assert site.ask(f"/thumbnail/{new['id']}")[0] == 200
        assert len(list((root / ".projbank" / "thumbnails").rglob("*.jpg"))) == 1
        (root / "new.jpg").unlink()
        site.ask("/api/update", "POST")
        site.wait()
        assert not list((root / ".projbank" / "thumbnails").rglob("*.jpg"))


def test_duplicate_groups(made, tmp_path):
    root = tmp_path / "photos"
    shutil.copytree(made, root)
    shutil.copy(root / "0" / "000.jpg", root / "copy.jpg")
    with serving(root, update_first=True) as site:
        site.wait()
        groups = site.ask("/api/duplicates")[2]
    assert [photo["path"] for photo in groups[0]["photos"]] == ["0/000.jpg", "copy.jpg"]
    assert groups[0]["kind"] == "same"


def test_the_command_serves_and_ends_with_ctrl_c_in_the_middle_of_an_update(tmp_path):
    root = folder_of(tmp_path / "photos", 40)
    command = [sys.executable, "-m", "projbank", "serve", root, "--port", "0", "-j", "1"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = run.stdout.readline().strip()
    port = int(address.rstrip("/").rpartition(":")[2])
    assert address == f"http://127.0.0.1:{port}/"
    status, _, body = Served(port).ask("/")
    assert status == 200
    assert b"<title>" in body
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "Traceback" not in err
