/** Style and script of the reference page. Both are inline; their hashes stand in the page's policy. */

export const PAGE_STYLE = `
:root{color-scheme:light dark;--back:#fff;--raised:#f6f7f9;--line:#e1e4ea;--words:#1d2330;--soft:#5a6375;--link:#1457c0;
--get:#1457c0;--post:#1a7440;--delete:#b3261e;--other:#7a4b00}
@media (prefers-color-scheme:dark){:root{--back:#12151b;--raised:#1b2029;--line:#2c333f;--words:#e4e8ef;--soft:#9aa5b6;
--link:#82b1ff;--get:#82b1ff;--post:#6fd39a;--delete:#ff8f86;--other:#f0bd6a}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;background:var(--back);color:var(--words);font:16px/1.55 system-ui,sans-serif;display:grid;
grid-template-columns:18.5rem minmax(0,1fr)}
a{color:var(--link);text-decoration:none}
a:hover{text-decoration:underline}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:1rem;z-index:2;padding:.5rem 1rem;background:var(--back)}
header{position:sticky;top:0;height:100vh;overflow-y:auto;padding:1.25rem 1rem;background:var(--raised);
border-right:1px solid var(--line);font-size:.875rem}
.menu>summary{list-style:none;font-size:1rem}
.menu>summary::-webkit-details-marker{display:none}
header small{color:var(--soft)}
#filter{width:100%;margin-top:.75rem;padding:.4rem .6rem;font:inherit;color:inherit;background:var(--back);
border:1px solid var(--line);border-radius:.4rem}
nav p,nav>details{margin:1rem 0 .25rem;font-weight:600}
nav p a{color:var(--words)}
nav summary{cursor:pointer}
nav ul{list-style:none;margin:0;padding:0;font-weight:400}
nav li a{display:flex;gap:.5rem;align-items:baseline;padding:.2rem 0;color:var(--soft);overflow-wrap:anywhere}
nav .badge{min-width:3.1rem;font-size:.65rem}
main{padding:1.5rem 2.5rem 6rem;max-width:62rem;width:100%}
h1,h2,h3,h4{line-height:1.25;overflow-wrap:anywhere}
h1{font-size:1.9rem;margin:.5rem 0 1rem}
h2{font-size:1.5rem;margin:3rem 0 1rem;padding-top:1.5rem;border-top:1px solid var(--line)}
h3{font-size:1.15rem;margin:3rem 0 .75rem}
h4{font-size:.8rem;margin:1.5rem 0 .5rem;color:var(--soft);text-transform:uppercase;letter-spacing:.05em}
h1 a,h2 a,h3 a,h4 a{color:inherit}
p{margin:.5rem 0}
.badge{display:inline-block;font:600 .75rem/1.6 ui-monospace,monospace;color:var(--other)}
.get{color:var(--get)}.post,.put,.patch{color:var(--post)}.delete{color:var(--delete)}
h3 .badge{padding:0 .45rem;border:1px solid;border-radius:.35rem;vertical-align:.1em}
code{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
p code,td code{padding:.05em .3em;background:var(--raised);border-radius:.25rem}
h3 code{font-weight:600}
pre{margin:.5rem 0;padding:.9rem 1rem;overflow-x:auto;background:var(--raised);border:1px solid var(--line);border-radius:.5rem}
table{width:100%;margin:.75rem 0;border-collapse:collapse;font-size:.875rem;table-layout:fixed}
th,td{padding:.45rem .75rem .45rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600}
.c2 th:first-child{width:20%}
.c3 th:first-child,.c3 th:nth-child(2){width:28%}
.c4 th{width:18%}.c4 th:first-child{width:24%}.c4 th:nth-child(2){width:9%}.c4 th:last-child{width:auto}
.status th:first-child{width:17%}.status th:nth-child(2){width:30%}
#errors .c4 th,#errors .c4 th:first-child{width:auto}#errors .c4 th:nth-child(2){width:38%}
section:target>h2,section:target>h3,section:target>h4{background:linear-gradient(90deg,var(--raised),transparent);
box-shadow:-.6rem 0 var(--raised),-.75rem 0 var(--link)}
[hidden]{display:none!important}
@media (max-width:52rem){
body{display:block}
header{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line)}
html:has(.live){scroll-padding-top:4rem}
.live header{position:sticky;max-height:100vh;z-index:1;padding:.75rem 1rem}
.menu>summary{cursor:pointer}
.menu>summary::after{content:"Contents";float:right;color:var(--link);font-size:.875rem}
main{padding:1rem 1rem 4rem}
thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
table,tbody,tr,td{display:block}
tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
td{padding:.1rem 0;border:0}
td:nth-child(2){color:var(--soft)}
.c4 td:nth-child(2),.c4 td:nth-child(3){display:inline-block;margin-right:.75rem;color:var(--soft)}
td:empty{display:none}
}
@media print{header{display:none}body{display:block}}
`;

/** The filter, and a menu that starts closed on a small screen. */
export const PAGE_SCRIPT = `
document.body.classList.add("live");
const small = matchMedia("(max-width:52rem)");
const menu = document.querySelector(".menu");
menu.open = !small.matches;
menu.firstElementChild.addEventListener("click", (event) => { if (!small.matches) event.preventDefault(); });
small.addEventListener("change", () => { menu.open = !small.matches; });
menu.querySelector("nav").addEventListener("click", (event) => {
  if (small.matches && event.target.closest("a")) menu.open = false;
});
const filter = document.getElementById("filter");
const part = (node) => ({
  node, text: node.textContent.toLowerCase(), item: document.querySelector('nav a[href="#' + node.id + '"]'),
});
const entries = [...document.querySelectorAll("main .entry")].map(part);
const groups = [...document.querySelectorAll("main > section")].map(part);
const lists = [...document.querySelectorAll("nav details")];
const show = ({ node, item }, fits) => {
  node.hidden = !fits;
  if (item) item.parentElement.hidden = !fits;
};
const apply = () => {
  const words = filter.value.toLowerCase().split(/\\s+/).filter(Boolean);
  const fits = ({ text }) => words.every((word) => text.includes(word));
  for (const entry of entries) show(entry, fits(entry));
  for (const group of groups) {
    const inner = [...group.node.querySelectorAll(".entry")];
    show(group, inner.length === 0 ? fits(group) : inner.some((node) => !node.hidden));
  }
  for (const list of lists) {
    list.open = words.length > 0;
    list.hidden = [...list.querySelectorAll("li")].every((item) => item.hidden);
  }
  document.getElementById("nothing").hidden = groups.some(({ node }) => !node.hidden);
};
filter.hidden = false;
filter.addEventListener("input", apply);
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const target = link && document.getElementById(link.hash.slice(1));
  if (!target || !target.closest("[hidden]")) return;
  filter.value = "";
  apply();
});
`;
