package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	framework "github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/test/chromium"
)

// The page shows the 10 000 objects of an operator, or 1000 with the race detector. The operator is real; its API server is in memory, because a real one takes minutes for so many objects.
// The test logs times and asserts only the content, because other tests can use all processors.
func TestPage_ManyObjects(t *testing.T) {
	const number, busyNumber = manyObjects, manyObjects / 20
	browser := chromium.Start(t)
	g := NewWithT(t)
	objects := make([]client.Object, number)
	for i := range objects {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("object-%05d", i)}}
		if i%(number/busyNumber) == 0 {
			obj.Data = map[string]string{"backend": "busy"}
		}
		objects[i] = obj
	}
	cluster := kopftest.Memory(t, kopftest.Objects(objects...))
	var calls atomic.Int64
	var host *pageManager
	cluster.RunManager(t, func(mgr manager.Manager) error {
		host = &pageManager{Manager: mgr}
		resource := configMaps().OnCreate("make", func(ctx context.Context, req request) error {
			calls.Add(1)
			if req.Object.Data["backend"] == "busy" {
				return busy(ctx, req)
			}
			return nil
		})
		for _, id := range []string{"announce", "audit", "backup"} {
			resource.OnUpdate(id, succeed)
		}
		return mgr.Add(framework.New(host, resource, framework.WithStatusPage()))
	}, func(options *manager.Options) { options.Logger = logr.Discard() }) // it would have 20 000 lines
	server := httptest.NewServer(host.page)
	defer server.Close()

	var recorder *httptest.ResponseRecorder
	var answered time.Duration
	g.Eventually(func() (waiting int) {
		began := time.Now()
		recorder = httptest.NewRecorder()
		host.page.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, statuspage.ObjectsPath, nil))
		answered = time.Since(began)
		if calls.Load() < number {
			return 0
		}
		return bytes.Count(recorder.Body.Bytes(), []byte(`"state":"waiting"`))
	}).WithTimeout(5 * time.Minute).WithPolling(100 * time.Millisecond).Should(Equal(busyNumber))

	page := browser.Open(t, server.URL+statuspage.Path)
	var loaded float64
	page.Eval("performance.getEntriesByName('objects-shown')[0].startTime", &loaded)
	t.Logf("%d objects: the operator answers in %s with %.1f MB; the table is in the page after %.0f ms", number, answered.Round(time.Millisecond), float64(recorder.Body.Len())/1e6, loaded)
	g.Expect(page.Text("document.getElementById('count-waiting').textContent")).To(Equal(strconv.Itoa(busyNumber)))
	g.Expect(page.Text("document.getElementById('result').textContent")).To(MatchRegexp(`^(10,000 of 10,000|1,000 of 1,000) objects`))
	page.Eval("document.getElementById('search').focus()", nil)
	page.Insert("object-00020")
	page.Wait("document.querySelectorAll('#objects tbody tr').length === 1")
	page.Eval("document.querySelector('#objects tbody a').click()", nil)
	page.Wait("document.querySelector('#explanation table')")
	g.Expect(page.Text("document.getElementById('object').innerText")).To(ContainSubstring("the backend is busy"))
	page.Verify(server.URL + statuspage.Path)
}
