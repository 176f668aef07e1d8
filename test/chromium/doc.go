// Package chromium controls a headless Chromium in tests of the status page. Operators do not contain this package.
//
//	browser := chromium.Start(t)
//	tab := browser.Open(t, server.URL+"/kopf/")
//	tab.Wait("document.querySelector('#objects table')")
package chromium
