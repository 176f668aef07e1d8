package kopftest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// Handlers can identify injected errors by their reasons.
func TestFault_ReasonsOfARealServer(t *testing.T) {
	for code, is := range map[int]func(error) bool{
		400: apierrors.IsBadRequest, 401: apierrors.IsUnauthorized, 403: apierrors.IsForbidden, 404: apierrors.IsNotFound,
		405: apierrors.IsMethodNotSupported, 406: apierrors.IsNotAcceptable, 409: apierrors.IsConflict, 410: apierrors.IsResourceExpired,
		413: apierrors.IsRequestEntityTooLargeError, 415: apierrors.IsUnsupportedMediaType, 422: apierrors.IsInvalid,
		429: apierrors.IsTooManyRequests, 500: apierrors.IsInternalError, 503: apierrors.IsServiceUnavailable, 504: apierrors.IsTimeout,
	} {
		report := kopftest.Cycle(t, kopftest.Given{
			Objects: []client.Object{configMap(nil)}, Duration: time.Minute,
			Faults: []kopftest.Fault{{Verb: "create", Resource: "secrets", Code: code, Times: -1}},
		}, secretCreator())
		if len(report.Calls) == 0 || !is(report.Calls[0].Err) {
			t.Errorf("status code %d: calls = %v of the report %v, want an error with the reason of the code", code, report.Calls, report)
		}
	}
}

// client-go retries a request after a response with 429.
func TestFault_ClientRetriesThrottledRequests(t *testing.T) {
	g := NewWithT(t)
	report := kopftest.Cycle(t, kopftest.Given{
		Objects: []client.Object{configMap(nil)}, Duration: time.Minute,
		Faults: []kopftest.Fault{{Verb: "create", Resource: "secrets", Code: 429}},
	}, secretCreator())
	g.Expect(report.Requests()).To(ContainElements("create secrets/child (429)", "create secrets/child"))
	g.Expect(report.Calls).To(HaveLen(1))
	g.Expect(report.Calls[0].Err).NotTo(HaveOccurred())
	g.Expect(report.Calls[0].Ended.Sub(report.Calls[0].Began)).To(Equal(time.Second))
}

// After a crash, no request reaches the server, not even a delayed request.
func TestCrash_DuringADelayedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, cluster := NewWithT(t), kopftest.Memory(t, kopftest.Objects(configMap(nil)))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("make", func(ctx context.Context, req *cmRequest) error {
			return secretOf(context.WithoutCancel(ctx), req)
		}))
		operator.InjectFaults(kopftest.Fault{Verb: "create", Resource: "secrets", Delay: time.Second})
		<-time.After(time.Second / 2)
		operator.Crash(t)
		g.Expect(operator.Calls()).To(ContainElement(HaveField("Err", MatchError(ContainSubstring("operator crashed")))))
		g.Expect(operator.Writes()).To(BeEmpty())
		var found corev1.SecretList
		g.Expect(cluster.Client.List(t.Context(), &found)).To(Succeed())
		g.Expect(found.Items).To(BeEmpty())
	})
}

func secretCreator() *kopf.Resource[*corev1.ConfigMap] {
	return kopf.For(&corev1.ConfigMap{}).OnCreate("make", secretOf)
}

func secretOf(ctx context.Context, req *cmRequest) error {
	return req.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: "child"}})
}
