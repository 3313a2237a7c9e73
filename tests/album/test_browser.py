"""The page in a real browser: drop, paste, click, slider, duplicates, a damaged upload, keys, phone, light and dark."""

import base64
import shutil

import cv2
import pytest

from tests.album.photos import scene, write
from tests.paper.report.browser import FLAGS, find_browser

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if find_browser() is None:
    pytest.skip("needs Chromium", allow_module_level=True)

from tests.album.site import serving  # noqa: E402

HOSTILE = "<img src=x onerror='window.attacked=1'>"
DROP = """([data, name]) => {
  const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name));
  for (const kind of ["dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""
PASTE = DROP.replace(
    'for (const kind of ["dragover", "drop"])\n    document.body.dispatchEvent(new DragEvent(kind, '
    "{ dataTransfer: transfer, bubbles: true, cancelable: true }));",
    'dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer }));',
).replace("new File([bytes], name)", 'new File([bytes], name, { type: "image/jpeg" })')


@pytest.fixture(scope="module")
def site(made, tmp_path_factory):
    root = tmp_path_factory.mktemp("browsed") / "photos"
    shutil.copytree(made, root)
    shutil.copy(root / "0" / "000.jpg", root / "copy.jpg")
    write(root / "mirror.jpg", scene(5)[:, ::-1])
    (root / "bad.jpg").write_bytes(b"bad")
    (root / f"{HOSTILE}bad.jpg").write_bytes(b"bad")
    write(root / f"{HOSTILE}.jpg", scene(50))
    with serving(root, update_first=True) as served:
        served.wait()
        served.root = root
        yield served


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, site):
    """Open the page; afterwards nothing must have failed, and nobody else been asked."""
    contexts, errors = [], []

    def start(**settings):
        context = chromium.new_context(**({"viewport": {"width": 1200, "height": 800}} | settings))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith((site.address, "blob:", "data:"))
                else errors.append(request.url))  # fmt: skip
        page.goto(site.address)
        page.wait_for_selector("#photos .photo")
        return page

    yield start
    for context in contexts:
        context.close()
    assert errors == []


def test_names_with_html_are_letters(visit):
    page = visit()
    page.get_by_title(f"{HOSTILE}.jpg").first.click()
    assert page.inner_text("#large-name") == f"{HOSTILE}.jpg"
    page.keyboard.press("Escape")
    assert HOSTILE in page.text_content("#problems")
    assert page.evaluate("[...document.images].filter(it => it.getAttribute('src') === 'x').length") == 0
    assert page.evaluate("window.attacked") is None


def jpeg(image):
    return cv2.imencode(".jpg", image)[1].tobytes()


def drop(page, data, name="query.jpg", script=DROP):
    page.evaluate(script, [base64.b64encode(data).decode(), name])


def labels(page, within="#photos"):
    return [one.get_attribute("aria-label") for one in page.query_selector_all(f"{within} .photo")]


def wait_for_results(page):
    page.wait_for_function("() => /most similar first|similar\\.$/.test(document.getElementById('said').textContent)")


def test_all_photos_are_shown_and_what_is_missing_is_said(visit):
    page = visit()
    page.wait_for_function("() => document.querySelectorAll('#photos .photo').length === 33")
    assert "33 photos (dense SIFT" in page.inner_text("#said")
    assert page.inner_text("#problems summary") == "2 files not in the album"
    page.click("#problems summary")
    assert "bad.jpg: can't be decoded" in page.inner_text("#problems ul")
    page.wait_for_function("() => [...document.images].filter(i => i.closest('.photo')).every(i => i.naturalWidth > 0)")


@pytest.mark.parametrize("script", [DROP, PASTE], ids=["drop", "paste"])
def test_a_picture_that_is_dropped_or_pasted_finds_its_like(visit, script):
    page = visit()
    drop(page, jpeg(scene(3)[3:, 3:]), script=script)
    wait_for_results(page)
    assert labels(page)[0].startswith("0/003.jpg, similarity")
    assert page.is_hidden("#drop")
    assert page.evaluate("document.getElementById('query-picture').naturalWidth") == 93


def test_choosing_a_file_and_clicking_a_result(visit, tmp_path):
    page = visit()
    write(tmp_path / "query.jpg", scene(7))
    page.set_input_files("#choose", tmp_path / "query.jpg")
    wait_for_results(page)
    assert labels(page)[0].startswith("1/007.jpg")
    second = labels(page)[1].split(",")[0]
    page.click("#photos li:nth-child(2) .photo")
    page.wait_for_function(f"() => document.querySelector('#photos .photo')?.ariaLabel === '{second}, similarity 1.00'")


def test_the_slider_leaves_out_what_is_less_similar(visit):
    page = visit()
    drop(page, jpeg(scene(3)))
    wait_for_results(page)
    before = len(labels(page))
    page.focus("#least")
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert page.inner_text("#least-shown") == "0.30"
    left = labels(page)
    assert 1 <= len(left) < before
    assert all(float(one.split()[-1]) >= 0.3 for one in left)
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelectorAll('#photos .photo').length <= 1")


def test_duplicates_are_in_groups(visit):
    page = visit()
    page.click("#show-duplicates")
    page.wait_for_selector("#groups .photo")
    titles = [one.inner_text() for one in page.query_selector_all("#groups h2")]
    assert titles[:2] == ["The same picture (1)", "Near-duplicates (1)"]
    assert labels(page, "#groups")[:2] == ["0/000.jpg, best kept", "copy.jpg"]
    assert {one.split(",")[0] for one in labels(page, "#groups")[2:4]} == {"2/005.jpg", "mirror.jpg"}
    assert page.get_attribute("#show-duplicates", "aria-pressed") == "true"
    page.click("#all")
    page.wait_for_selector("#photos .photo")


def test_a_damaged_picture_is_one_line_and_the_page_goes_on(visit):
    page = visit()
    drop(page, b"this is no picture", "holiday.jpg")
    page.wait_for_selector("#said.error")
    assert page.inner_text("#said") == "the picture: can't be decoded as an image."
    drop(page, jpeg(scene(4)))
    wait_for_results(page)
    assert labels(page)[0].startswith("1/004.jpg")


def test_a_photo_opens_large_and_closes(visit):
    page = visit()
    page.click("#photos li:nth-child(2) .photo")
    page.wait_for_function("() => document.getElementById('large-picture').naturalWidth > 0")
    assert page.inner_text("#large-name") == "0/003.jpg"
    page.keyboard.press("Escape")
    page.wait_for_selector("#large", state="hidden")
    page.click("#photos li:nth-child(2) .photo")
    page.click("#more")
    wait_for_results(page)
    assert labels(page)[0] == "0/003.jpg, similarity 1.00"


def test_the_keyboard_is_enough(visit):
    page = visit()
    page.focus("#photos li:first-child .photo")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.ariaLabel") == "0/006.jpg"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.ariaLabel") == "0/006.jpg"
    page.keyboard.press("Enter")
    page.wait_for_selector("#large[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#large", state="hidden")
    page.evaluate("document.getElementById('choose').addEventListener('click', () => document.title = 'choosing')")
    page.keyboard.press("/")
    page.wait_for_function("() => document.title === 'choosing'")


def test_everything_has_a_name(visit):
    page = visit()
    page.click("#show-duplicates")
    page.wait_for_selector("#groups .photo")
    unnamed = page.evaluate(
        """[...document.querySelectorAll("button, input, img, summary, progress, dialog, ul.grid")].filter(it =>
        !(it.ariaLabel || it.textContent.trim() || it.labels?.length || it.hasAttribute("alt")))
        .map(it => it.outerHTML)"""
    )
    assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 375])
def test_it_fits_and_can_be_read(visit, width, scheme):
    page = visit(viewport={"width": width, "height": 740}, color_scheme=scheme, has_touch=width < 500)
    drop(page, jpeg(scene(3)))
    wait_for_results(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = page.evaluate(
        "['backgroundColor', 'color'].map(it => getComputedStyle(document.body)[it].match(/\\d+/g).map(Number))"
    )
    paper, ink = (sum(colour[:3]) / 3 for colour in colours)
    assert abs(paper - ink) > 150
    assert (paper > ink) == (scheme == "light")
    first = page.query_selector("#photos .photo").bounding_box()
    assert first["width"] >= 120
    if width < 500:
        page.tap("#photos li:nth-child(2) .photo")
        page.wait_for_function("() => document.querySelector('#photos .photo .score').textContent === '1.00'")
