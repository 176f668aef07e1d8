package e2e

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("Lean caches", func() {
	type W = *v1.Widget

	It("lose nothing: changes before, between and after two operators are handled with their old states", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func() *kopf.Resource[W] {
			note := func(what string) kopf.Handler[W] {
				return func(ctx context.Context, req *kopf.Request[W]) error {
					read := &v1.Widget{}
					if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), read); err != nil {
						return err
					}
					old := 0
					if req.Old != nil {
						old = req.Old.Spec.Size
					}
					seen.notef("%s %s: %d→%d", what, req.Object.Name, old, req.Object.Spec.Size)
					req.Object.Status.Phase = fmt.Sprint(req.Object.Spec.Size)
					return nil
				}
			}
			return kopf.For(&v1.Widget{}).OnCreate("create", note("create")).OnUpdate("update", note("update")).OnDelete("delete", note("delete"))
		}
		objects := map[string]W{}
		for _, name := range []string{"stays", "changes", "leaves", "changes-later"} {
			objects[name] = widget(ns, name)
			objects[name].Spec.Size = 1
			create(ctx, objects[name])
		}
		setSize := func(name string, size int) { edit(ctx, objects[name], func(w W) { w.Spec.Size = size }) }
		first := start(ns, options(declare(), kopf.WithLeanCaches()))
		for _, obj := range objects {
			handled(ctx, obj)
		}
		setSize("changes", 2)
		Eventually(fresh(ctx, objects["changes"])).Should(HaveField("Status.Phase", "2"))
		first.stop()
		setSize("changes", 3)
		remove(ctx, objects["leaves"])

		start(ns, options(declare(), kopf.WithLeanCaches()))
		Eventually(fresh(ctx, objects["changes"])).Should(HaveField("Status.Phase", "3"))
		Eventually(gone(ctx, objects["leaves"])).Should(BeTrue())
		setSize("changes-later", 2)
		Eventually(fresh(ctx, objects["changes-later"])).Should(HaveField("Status.Phase", "2"))
		remove(ctx, objects["stays"])
		Eventually(gone(ctx, objects["stays"])).Should(BeTrue())
		Eventually(func() []string { return slices.Sorted(slices.Values(seen.all())) }).Should(Equal([]string{
			"create changes-later: 0→1", "create changes: 0→1", "create leaves: 0→1", "create stays: 0→1", "delete leaves: 1→1", "delete stays: 1→1",
			"update changes-later: 1→2", "update changes: 1→2", "update changes: 2→3",
		}))
		for _, name := range []string{"changes", "changes-later"} {
			Expect(fresh(ctx, objects[name])()).To(HaveField("Annotations", HaveKeyWithValue("kopf.zalando.org/last-handled-configuration", ContainSubstring(`"size":`))))
		}
	}, SpecTimeout(minute))
})
