package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("An object that disappears despite our finalizer", func() {
	type W = *v1.Widget
	const objects = 60

	It("has its delete handlers called once if any handler was called for this object", func(ctx context.Context) {
		ns := newNamespace(ctx)
		var mu sync.Mutex
		created, deleted := map[types.UID]int{}, map[types.UID]int{}
		count := func(calls map[types.UID]int) kopf.Handler[W] {
			return func(_ context.Context, req *kopf.Request[W]) error {
				mu.Lock()
				defer mu.Unlock()
				calls[req.Object.UID]++
				return nil
			}
		}
		widgets := make([]W, objects)
		var deletions sync.WaitGroup
		// The test deletes each object while the engine writes its finalizer.
		deleteConcurrently := withFaults(func(r *http.Request, _ int64, next http.RoundTripper) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte(`"finalizers":["`)) {
				for _, w := range widgets {
					if bytes.Contains(body, []byte(w.UID)) {
						deletions.Go(func() { _ = k8s.Delete(ctx, w.DeepCopy()) })
					}
				}
			}
			return next.RoundTrip(r)
		})
		for i := range widgets {
			widgets[i] = widget(ns, fmt.Sprint("w", i))
			create(ctx, widgets[i])
		}
		op := start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("created", count(created)).
			OnDelete("deleted", count(deleted))), deleteConcurrently)
		for _, w := range widgets {
			Eventually(gone(ctx, w)).Should(BeTrue())
		}
		deletions.Wait()
		consistent := func() string {
			mu.Lock()
			defer mu.Unlock()
			for uid, n := range created {
				if n != 1 || deleted[uid] != 1 {
					return fmt.Sprintf("%s: created %d times, deleted %d times", uid, n, deleted[uid])
				}
			}
			return ""
		}
		Eventually(consistent).Should(BeEmpty())
		Consistently(consistent).Should(BeEmpty())
		AddReportEntry("objects that disappeared", fmt.Sprintf("%d of %d", len(op.log.find("was deleted although it had the finalizer of the operator")), objects))
	}, SpecTimeout(minute))
})
