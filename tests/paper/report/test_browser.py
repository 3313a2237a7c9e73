"""The report in a real browser: nothing fails, everything can be seen, tables sort."""

import pytest

PLOTS = "[...document.querySelectorAll('figure > svg')].map(s => [s.getBoundingClientRect().width, s.ariaLabel])"
COLUMN = "[...document.querySelectorAll('table')[{t}].tBodies[0].rows].map(r => r.cells[{c}].dataset.value ?? null)"
NAMES = "[...document.querySelectorAll('table')[{t}].tBodies[0].rows].map(r => r.cells[0].textContent)"
CLICK = "document.querySelectorAll('table')[{t}].tHead.querySelectorAll('button')[{c}].click()"


@pytest.fixture(scope="module")
def report(folder):
    return folder / "report.html"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_everything_loads_and_fits(browser, report, width, dark):
    browser.errors.clear()
    browser.open(report, width=width, dark=dark, mobile=width < 500)
    assert browser.errors == []
    plots = browser.run(PLOTS)
    assert len(plots) >= 5
    assert all(300 <= size <= width and title for size, title in plots)
    assert browser.run("document.documentElement.scrollWidth") <= width  # only tables scroll sideways


def test_colours_follow_the_reader(browser, report):
    def colours(selector, what):
        found = []
        for dark in (False, True):
            browser.open(report, width=1280, dark=dark)
            script = f"getComputedStyle(document.querySelector('{selector}')).{what}"
            found.append([int(c) for c in browser.run(script).strip("rgb()").split(",")])
        return found

    light, dark = colours("body", "backgroundColor")
    assert min(light) > 230
    assert max(dark) < 60
    light, dark = colours("figure > svg text", "fill")  # plots take the page's colour
    assert max(light) < 100
    assert min(dark) > 180


def test_tables_sort_both_ways(browser, report):
    browser.errors.clear()
    browser.open(report, width=1280)
    table = browser.run(
        "[...document.querySelectorAll('table')].findIndex(t => t.querySelector('th.paper') && !t.matches('.prose'))"
    )
    column = browser.run(f"document.querySelectorAll('table')[{table}].tHead.rows[0].cells.length") - 1  # the paper's
    before = [float(v) for v in browser.run(COLUMN.format(t=table, c=column)) if v is not None]
    assert before != sorted(before, reverse=True)
    browser.run(CLICK.format(t=table, c=column))
    falling = browser.run(COLUMN.format(t=table, c=column))
    assert [float(v) for v in falling if v is not None] == sorted(before, reverse=True)
    assert browser.run("document.querySelectorAll('th[aria-sort=descending]').length") == 1
    browser.run(CLICK.format(t=table, c=column))
    rising = browser.run(COLUMN.format(t=table, c=column))
    assert [float(v) for v in rising if v is not None] == sorted(before)
    browser.run(CLICK.format(t=table, c=0))
    names = browser.run(NAMES.format(t=table))
    first = [name[0].lower() for name in names]
    assert first == sorted(first)
    assert browser.errors == []


def test_every_table_can_be_sorted_and_empty_cells_come_last(browser, report):
    browser.errors.clear()
    browser.open(report, width=1280)
    n_tables = browser.run("document.querySelectorAll('table').length")
    assert n_tables >= 8
    for t in range(n_tables):
        n_columns = browser.run(f"document.querySelectorAll('table')[{t}].tHead.rows[0].cells.length")
        for c in range(1, n_columns):
            for _ in range(2):
                browser.run(CLICK.format(t=t, c=c))
                values = browser.run(COLUMN.format(t=t, c=c))
                n_known = sum(value is not None for value in values)
                assert all(value is not None for value in values[:n_known])
    assert browser.errors == []


def test_it_prints(browser, report):
    browser.open(report, width=1280, dark=True)
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page/") >= 2


def test_links_lead_somewhere(browser, report):
    browser.open(report, width=1280)
    script = "[...document.querySelectorAll('nav a')].map(a => document.querySelector(a.getAttribute('href')) !== null)"
    found = browser.run(script)
    assert len(found) >= 8
    assert all(found)
