package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// If a user moved an object while a handler runs, two shards would handle the object at the same time.
var _ = Describe("The admission policy for shard labels", func() {
	const (
		shard = "shard.alpha.sharding.timebertt.dev/databases"
		drain = "drain.alpha.sharding.timebertt.dev/databases"
	)

	// as returns a client of a user with all permissions.
	as := func(user string) client.Client {
		config := rest.CopyConfig(cp.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		httpClient, err := rest.HTTPClientFor(config)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(httpClient.CloseIdleConnections)
		out, err := client.New(config, client.Options{Scheme: scheme, HTTPClient: httpClient})
		Expect(err).NotTo(HaveOccurred())
		return out
	}

	It("lets only the sharder and the operator move objects", func(ctx context.Context) {
		ns := newNamespace(ctx)
		text, err := os.ReadFile("../../examples/25-sharded/config/policy/shard-labels.yaml")
		Expect(err).NotTo(HaveOccurred())
		changed := strings.NewReplacer("[demo.example.com]", "["+v1.GroupVersion.Group+"]", "[databases]", "[widgets]", ": databases.", ": "+ns+".").Replace(string(text))
		policyText, bindingText, _ := strings.Cut(changed, "\n---\n")
		policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		Expect(yaml.UnmarshalStrict([]byte(policyText), policy)).To(Succeed())
		Expect(yaml.UnmarshalStrict([]byte(bindingText), binding)).To(Succeed())
		binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
		}
		for _, obj := range []client.Object{policy, binding} {
			create(ctx, obj)
			DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, obj))).To(Succeed()) })
		}

		obj := widget(ns, "one")
		create(ctx, obj)
		label := func(user, key, value string) error {
			return patch(ctx, as(user), obj, fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, key, value))
		}
		const user, sharder, operator = "user", "system:serviceaccount:sharding-system:sharder", "system:serviceaccount:default:sharded-operator"
		Expect(label(user, shard, `"one"`)).To(Succeed(), "the object had no shard")
		Eventually(func() error {
			Expect(label(sharder, shard, `"one"`)).To(Succeed())
			return label(user, shard, `"two"`)
		}).Should(MatchError(ContainSubstring(
			"only the sharder and the operator may change the label "+shard+", because the shard one may be handling the object")), "the API server loads the policy")
		Expect(label(user, shard, `"two"`)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(label(user, shard, "null")).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(patch(ctx, as(user), obj, `{"metadata": {"labels": null}}`)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(label(user, "other", `"x"`)).To(Succeed(), "other labels")
		Expect(label(user, drain, `"true"`)).To(Succeed(), "the shard releases the object first")
		Expect(label(operator, shard, "null")).To(Succeed())
		Expect(label(sharder, shard, `"two"`)).To(Succeed())
		Expect(label(sharder, shard, `"three"`)).To(Succeed())
	}, SpecTimeout(minute))
})
