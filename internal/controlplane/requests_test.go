package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The audit log and the counters report the same requests.
func TestAuditAndWrites(t *testing.T) {
	g := NewWithT(t)
	needServers(t)
	ctx := t.Context()
	cp, err := Start(Options{Audit: true, CRDs: []*apiextensionsv1.CustomResourceDefinition{widgets()}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(cp.Stop()).To(Succeed()) })
	tail := cp.AuditSinceStart()
	g.Expect(tail.Next()).To(BeEmpty(), "the tail must not contain the requests of Start")

	config := rest.CopyConfig(cp.Config)
	config.UserAgent = "tester/1"
	c, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	writes := func(resource, subresource string) Counts {
		counts, err := cp.Writes(ctx, resource, subresource)
		g.Expect(err).NotTo(HaveOccurred())
		return counts
	}
	configMaps, statuses := writes("configmaps", ""), writes("widgets", "status")

	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"},
		Data:       map[string]string{"a": "1"},
	}
	g.Expect(c.Create(ctx, object.DeepCopy())).To(Succeed())
	g.Expect(client.IgnoreAlreadyExists(c.Create(ctx, object.DeepCopy()))).To(Succeed())
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"2"}}`))
	g.Expect(c.Patch(ctx, object, patch)).To(Succeed())
	g.Expect(c.Patch(ctx, object, patch, client.DryRunAll)).To(Succeed())
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	g.Expect(c.Delete(ctx, object)).To(Succeed())

	g.Expect(writes("configmaps", "").Since(configMaps)).To(Equal(Counts{
		"POST 201": 1, "POST 409": 1, "PATCH 200": 1, "PATCH 200 dry-run": 1, "DELETE 200": 1,
	}))
	g.Expect(writes("widgets", "status").Since(statuses)).To(Equal(Counts{}))
	g.Expect(next(g, tail)).To(HaveExactElements(
		"create configmaps default/one 201 tester/1",
		"create configmaps default/one 409 tester/1",
		"patch configmaps default/one 200 tester/1",
		"patch configmaps default/one 200 tester/1",
		"delete configmaps default/one 200 tester/1",
	))
	g.Expect(tail.Next()).To(BeEmpty())

	// A new tail starts at the first request.
	requests, err := cp.AuditSinceStart().Next()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests).To(HaveLen(5))
	g.Expect(requests[0].Body).To(And(
		ContainSubstring(`"data":{"a":"1"}`), Not(ContainSubstring("managedFields"))))
	g.Expect(requests[2].Body).To(MatchJSON(`{"data":{"a":"2"}}`))
	g.Expect(requests[2].URI).To(Equal("/api/v1/namespaces/default/configmaps/one"))
	g.Expect(requests[3].URI).To(ContainSubstring("dryRun=All"))
	g.Expect(requests[0].User).To(Equal("admin"))
	g.Expect(requests[0].Group).To(BeEmpty())
	g.Expect(time.Since(requests[0].Time)).To(BeNumerically("~", 0, time.Minute))

	// The log contains requests for custom resources and subresources, and server-side applies.
	widget := thing("Widget", "two")
	widget.Object["spec"] = map[string]any{"size": int64(1)}
	g.Expect(c.Apply(ctx, client.ApplyConfigurationFromUnstructured(widget), client.FieldOwner("tester"))).To(Succeed())
	g.Expect(c.Status().Patch(ctx, thing("Widget", "two"),
		client.RawPatch("application/json-patch+json", []byte(`[{"op":"add","path":"/status","value":{"x":1}}]`)))).
		To(Succeed())
	// The log omits leases and Events.
	g.Expect(c.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "three"}})).To(Succeed())
	g.Expect(c.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "four"},
		InvolvedObject: corev1.ObjectReference{Namespace: "default"},
	})).To(Succeed())

	g.Expect(writes("widgets", "")).To(Equal(Counts{"APPLY 201": 1}))
	g.Expect(writes("widgets", "status").Since(statuses)).To(Equal(Counts{"PATCH 200": 1}))
	requests, err = tail.Next()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests).To(HaveLen(2))
	g.Expect(requests[0].Body).To(ContainSubstring(`"spec":{"size":1}`))
	g.Expect(requests[0].URI).To(ContainSubstring("fieldManager=tester"))
	g.Expect(requests[1].Subresource).To(Equal("status"))
	g.Expect(requests[1].Group).To(Equal("test.example.com"))
	g.Expect(requests[1].Body).To(MatchJSON(`[{"op":"add","path":"/status","value":{"x":1}}]`))

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = cp.Writes(cancelled, "widgets", "")
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(cp.Stop()).To(Succeed())
	_, err = tail.Next()
	g.Expect(err).To(MatchError(ContainSubstring("removed by Stop")))
}

func next(g *WithT, tail *AuditTail) []string {
	requests, err := tail.Next()
	g.Expect(err).NotTo(HaveOccurred())
	var lines []string
	for _, r := range requests {
		lines = append(lines, fmt.Sprintf("%s %s %s/%s %d %s",
			r.Verb, r.Resource, r.Namespace, r.Name, r.Code, r.UserAgent))
	}
	return lines
}

func TestAuditTail_IncompleteLine(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	tail := (&ControlPlane{dir: dir, audited: true}).AuditSinceStart()
	g.Expect(tail.Next()).To(BeEmpty(), "before the file exists")

	file, err := os.Create(filepath.Join(dir, "audit.log"))
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	write := func(text string) {
		_, err := file.WriteString(text)
		g.Expect(err).NotTo(HaveOccurred())
	}
	write(`{"verb":"create","objectRef":{"resource":"a"}}` + "\n" + `{"verb":"upd`)
	g.Expect(next(g, tail)).To(HaveExactElements(HavePrefix("create a")))
	g.Expect(next(g, tail)).To(BeEmpty())
	write(`ate"}` + "\n")
	g.Expect(next(g, tail)).To(HaveExactElements(HavePrefix("update")))
	write("what?\n")
	_, err = tail.Next()
	g.Expect(err).To(MatchError(And(ContainSubstring("what?"), ContainSubstring("parse the audit log"))))
}

func TestCounts(t *testing.T) {
	g := NewWithT(t)
	line := func(verb, code, dryRun, group, resource, subresource, value string) string {
		return fmt.Sprintf(`apiserver_request_total{code=%q,component="apiserver",dry_run=%q,group=%q,`+
			`resource=%q,scope="resource",subresource=%q,verb=%q,version="v1"} %s`+"\n",
			code, dryRun, group, resource, subresource, verb, value)
	}
	text := strings.Join([]string{
		"# HELP apiserver_request_total [STABLE] Counter\n# TYPE apiserver_request_total counter\n",
		"apiserver_request_total_of_another_kind{resource=\"a\",verb=\"PUT\",code=\"200\"} 9\n",
		line("GET", "200", "", "", "a", "", "9"),
		line("PUT", "200", "", "", "a", "", "1.5e+06"),
		line("PUT", "409", "", "", "a", "", "2"),
		line("PUT", "200", "All", "", "a", "", "3"),
		line("PUT", "200", "", "other", "a", "", "4"),
		line("PATCH", "200", "", "", "a", "status", "9"),
		line("PATCH", "200", "", "", "b", "", "9"),
		line("DELETECOLLECTION", "0", "", "", "a", "", "5"),
	}, "")
	counts, err := parseCounts([]byte(text), "a", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(counts).To(Equal(Counts{
		"PUT 200": 1500004, "PUT 409": 2, "PUT 200 dry-run": 3, "DELETECOLLECTION 0": 5,
	}))
	g.Expect(counts.Succeeded()).To(Equal(1500007))
	g.Expect(counts.Failed()).To(Equal(7))
	g.Expect(counts.Total()).To(Equal(1500014))
	g.Expect(counts.Since(Counts{"PUT 200": 1500000, "PUT 409": 2})).To(Equal(Counts{
		"PUT 200": 4, "PUT 200 dry-run": 3, "DELETECOLLECTION 0": 5,
	}))
	g.Expect(counts.Since(counts)).To(Equal(Counts{}))

	_, err = parseCounts([]byte("apiserver_request_total{verb=\n"), "a", "")
	g.Expect(err).To(HaveOccurred())
}
