// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// stepTimeout is the timeout of one step in a tab and of the browser's start. It ends a step that hangs; a busy machine
// does not reach it.
const stepTimeout = 5 * time.Minute

// Browser is a running Chromium with a profile of its own.
type Browser struct {
	ctx  context.Context
	stop []func()
}

// Start starts a browser, which Close ends.
func Start() (_ *Browser, err error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, errors.New("browser: no chromium is installed (scripts/deps installs it)")
	}
	dir, err := os.MkdirTemp("", "assay-browser-")
	if err != nil {
		return nil, fmt.Errorf("browser: %w", err)
	}
	b := &Browser{stop: []func(){func() { _ = os.RemoveAll(dir) }}}
	options := append(chromedp.DefaultExecAllocatorOptions[:], // --headless, --no-first-run, --disable-background-networking, --disable-sync and others
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true),
	)
	allocated, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stopBrowser := chromedp.NewContext(allocated)
	b.ctx, b.stop = ctx, append(b.stop, stopAllocator, stopBrowser)
	started := make(chan error, 1)
	go func() { started <- chromedp.Do(ctx) }()
	select {
	case err = <-started:
	case <-time.After(stepTimeout):
		err = errors.New("it does not start")
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("browser: %w", err)
	}
	return b, nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() {
	for i := len(b.stop) - 1; i >= 0; i-- {
		b.stop[i]()
	}
}

// Tab is a page with its own cookies. It is not safe for concurrent use.
type Tab struct {
	ctx  context.Context
	stop func()

	mu       sync.Mutex
	problems []string
}

// NewTab opens a tab, which its Close and that of the browser close.
func (b *Browser) NewTab() (*Tab, error) {
	ctx, stop := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t := &Tab{ctx: ctx, stop: stop}
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("browser: open a tab: %w", err)
	}
	if err := chromedp.Listen(ctx, t.hear); err != nil {
		stop()
		return nil, fmt.Errorf("browser: listen to a tab: %w", err)
	}
	return t, nil
}

// Close closes the tab.
func (t *Tab) Close() { t.stop() }

// hear records exceptions, console errors, violations of the Content-Security-Policy and error responses.
func (t *Tab) hear(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			problem = "console: " + string(e.Type)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			problem = string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if problem != "" {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.problems = append(t.problems, problem)
	}
}

// Problems returns the problems recorded since the last call.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.problems
	t.problems = nil
	return found
}

// do runs steps with the timeout of one step.
func (t *Tab) do(what string, steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(t.ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		return fmt.Errorf("browser: %s: %w", what, err)
	}
	return nil
}

// Open navigates to a page and waits until it has loaded.
func (t *Tab) Open(url string) error { return t.do("open "+url, chromedp.Navigate(url)) }

// Back navigates back and does not wait: call Await for the expected page.
func (t *Tab) Back() error {
	_, err := Evaluate[bool](t, `(() => { setTimeout(() => history.back()); return true })()`)
	return err
}

// Viewport sets the size of the window and whether it emulates a phone.
func (t *Tab) Viewport(width, height int64, phone bool) error {
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(1)}
	if phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	return t.do("set the viewport", chromedp.EmulateViewport(width, height, options...))
}

// Scheme sets whether the system is light or dark.
func (t *Tab) Scheme(scheme string) error {
	return t.do("set the colour scheme", func(ctx context.Context, _ *chromedp.Target) (v chromedp.Void, err error) {
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return v, err
	})
}

// Scripting allows or forbids pages to run scripts.
func (t *Tab) Scripting(on bool) error {
	return t.do("switch scripts", func(ctx context.Context, _ *chromedp.Target) (v chromedp.Void, err error) {
		_, err = chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
		return v, err
	})
}

// AllowClipboard grants pages of an origin access to the clipboard.
func (t *Tab) AllowClipboard(origin string) error {
	return t.do("allow the clipboard", func(ctx context.Context, _ *chromedp.Target) (v chromedp.Void, err error) {
		for _, name := range []string{"clipboard-read", "clipboard-write"} {
			if _, err = chromedp.CallBrowser(ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
				Permission: &cdpbrowser.PermissionDescriptor{Name: name}, Setting: cdpbrowser.PermissionSettingGranted, Origin: origin,
				BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
			}); err != nil {
				break
			}
		}
		return v, err
	})
}

// Seen waits until the first element of a CSS selector is visible. It does not run a script in the page.
func (t *Tab) Seen(selector string) error {
	return t.do("see "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
}

// Click clicks on the first element of a CSS selector.
func (t *Tab) Click(selector string) error {
	return t.do("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Type writes into the first element of a CSS selector.
func (t *Tab) Type(selector, text string) error {
	return t.do("type into "+selector, chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Press presses keys in the focused element.
func (t *Tab) Press(keys string) error { return t.do("press keys", chromedp.KeyEvent(keys)) }

// Await waits until a JavaScript expression is true on a loaded page. It continues across navigations.
func (t *Tab) Await(expression string) error {
	ctx, cancel := context.WithTimeout(t.ctx, stepTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("document.readyState === 'complete' && !!("+expression+")"))
		if ok {
			return nil
		}
		select {
		case <-again.C: // evaluation fails during a navigation
		case <-ctx.Done():
			return fmt.Errorf("browser: wait for %s: %w", expression, errors.Join(ctx.Err(), err))
		}
	}
}

// Evaluate returns the value of a JavaScript expression, or of its promise.
func Evaluate[T any](t *Tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, stepTimeout)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		return v, fmt.Errorf("browser: evaluate: %w", err)
	}
	return v, nil
}

// Text returns the visible text of the first element of a CSS selector.
func (t *Tab) Text(selector string) (string, error) {
	return Evaluate[string](t, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// Screenshot returns a PNG of the whole page.
func (t *Tab) Screenshot() ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.ctx, stepTimeout)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return nil, fmt.Errorf("browser: take a picture: %w", err)
	}
	return picture, nil
}

// AxePath is the path of axe-core, which make installs, from the root of the repository.
const AxePath = "bin/tools/axe/node_modules/axe-core/axe.min.js"

// Axe is the source of axe-core, from a file below the root of the repository.
func Axe(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, AxePath))
	if err != nil {
		return "", fmt.Errorf("axe-core is not there (make deps installs it): %w", err)
	}
	return string(source), nil
}

// Sets of axe-core rules: WCAG 2.2 A and AA with best practices, or only the colour contrast.
const (
	AllRules = `['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']`
	Contrast = `{type: 'rule', values: ['color-contrast']}`
)

// Violations runs axe-core on the page with AllRules or Contrast and returns the violations.
func (t *Tab) Violations(axe, rules string) ([]string, error) {
	there, err := Evaluate[bool](t, `'axe' in window`)
	if err == nil && !there {
		_, err = Evaluate[bool](t, axe+`; true`)
	}
	if err != nil {
		return nil, fmt.Errorf("load axe-core: %w", err)
	}
	found, err := Evaluate[[]string](t, `axe.run(document, {resultTypes: ['violations'], runOnly: `+rules+`}).then((r) =>
  r.violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 200) + ' ' + n.failureSummary.replaceAll('\n', ' ').slice(0, 300))))`)
	if err != nil {
		return nil, fmt.Errorf("run axe-core: %w", err)
	}
	return found, nil
}

// Overflowing describes the elements beyond the right edge of the window if the page scrolls horizontally.
func (t *Tab) Overflowing() (string, error) {
	found, err := Evaluate[[]string](t, `(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > width + 1 && !e.closest('svg, .scroll, .wide, pre, .nav, .hide'))
    .map((e) => e.outerHTML.slice(0, 120));
})()`)
	return strings.Join(found, "\n"), err
}
