package olm_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/contrib/olm"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// copier returns valid options with the objects in testdata/copier.yaml and other objects in YAML.
func copier(t testing.TB, documents ...string) olm.Options {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile("testdata/copier.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := olm.ReadObjects(strings.NewReader(string(text) + "\n---\n" + strings.Join(documents, "\n---\n")))
	g.Expect(err).NotTo(HaveOccurred())
	return olm.Options{Package: "copier", Version: "0.1.0", Channels: []string{"stable"}, Objects: objects}
}

const (
	clusterRole = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: copier}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]}`
	role        = `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: copier, namespace: copier-system}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]}`
	// boundRole is a Role with its binding, in another namespace.
	boundRole = `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: copier, namespace: other}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: copier, namespace: other}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: copier},
  subjects: [{kind: ServiceAccount, name: copier, namespace: copier-system}]}`
	crd = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: copies.example.com}, spec: {group: example.com, scope: Namespaced,
  names: {kind: Copy, listKind: CopyList, plural: copies, singular: copy},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: A copy}}}]}}`
)

func clusterRoleBinding(role, account string) string {
	return `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: ` + role + `}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ` + role + `},
  subjects: [{kind: ServiceAccount, name: ` + account + `, namespace: copier-system}]}`
}

func webhook(fields string) string {
	return `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: copier}, webhooks: [{name: validate.copier.example.com, sideEffects: None,
  admissionReviewVersions: [v1], rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}], ` + fields + `}]}`
}

const service = `clientConfig: {service: {name: copier-webhooks, namespace: copier-system, path: /validate}}`

// find returns the object of a kind.
func find(o olm.Options, kind string) *unstructured.Unstructured {
	for _, obj := range o.Objects {
		if u, ok := obj.(*unstructured.Unstructured); ok && u.GetKind() == kind {
			return u
		}
	}
	return nil
}

func set(value any, kind string, path ...string) func(*olm.Options) {
	return func(o *olm.Options) {
		if err := unstructured.SetNestedField(find(*o, kind).Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func without(kind string) func(*olm.Options) {
	return func(o *olm.Options) {
		var rest []client.Object
		for _, obj := range o.Objects {
			if obj != client.Object(find(*o, kind)) {
				rest = append(rest, obj)
			}
		}
		o.Objects = rest
	}
}

func TestWrite_RejectsInvalidOptions(t *testing.T) {
	containers := func(images ...string) []any {
		var list []any
		for i, image := range images {
			list = append(list, map[string]any{"name": "c" + string(rune('0'+i)), "image": image})
		}
		return list
	}
	containersOf := []string{"spec", "template", "spec", "containers"}
	for name, test := range map[string]struct {
		objects []string
		change  func(*olm.Options)
		want    string
	}{
		"no package":            {nil, func(o *olm.Options) { o.Package = "" }, `the package "" is invalid`},
		"invalid package":       {nil, func(o *olm.Options) { o.Package = "My Shop" }, `the package "My Shop" is invalid`},
		"no version":            {nil, func(o *olm.Options) { o.Version = "" }, "Options has no Version"},
		"version with v":        {nil, func(o *olm.Options) { o.Version = "v1.2.3" }, `the Version "v1.2.3" is not a semantic version`},
		"short version":         {nil, func(o *olm.Options) { o.Version = "1.2" }, `the Version "1.2" is not a semantic version`},
		"build metadata":        {nil, func(o *olm.Options) { o.Version = "1.2.3+build" }, "the name copier.v1.2.3+build is invalid"},
		"no channels":           {nil, func(o *olm.Options) { o.Channels = nil }, "Options has no Channels"},
		"two channels in one":   {nil, func(o *olm.Options) { o.Channels = []string{"stable,fast"} }, `the channel "stable,fast" is invalid`},
		"other default channel": {nil, func(o *olm.Options) { o.DefaultChannel = "fast" }, `the default channel "fast" is not one of the channels`},
		"replaces itself":       {nil, func(o *olm.Options) { o.Replaces = "copier.v0.1.0" }, "copier.v0.1.0 cannot replace or skip the same version"},
		"skips itself":          {nil, func(o *olm.Options) { o.Skips = []string{"copier.v0.1.0"} }, "copier.v0.1.0 cannot replace or skip the same version"},
		"base replaces itself":  {nil, set("copier.v0.1.0", "ClusterServiceVersion", "spec", "replaces"), "copier.v0.1.0 cannot replace or skip the same version"},
		"base skips itself":     {nil, set([]any{"copier.v0.1.0"}, "ClusterServiceVersion", "spec", "skips"), "copier.v0.1.0 cannot replace or skip the same version"},
		"invalid replaces":      {nil, func(o *olm.Options) { o.Replaces = "Copier v0" }, `spec.replaces "Copier v0" is invalid`},
		"no base":               {nil, without("ClusterServiceVersion"), "Objects has no ClusterServiceVersion"},
		"two bases":             {[]string{`{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {name: other}}`}, nil, "the ClusterServiceVersion copier.v0.0.0 is also in Objects"},
		"unknown field in base": {nil, set("x", "ClusterServiceVersion", "spec", "displayNames"), `unknown field "spec.displayNames"`},
		"no Deployment":         {nil, without("Deployment"), "Objects has no Deployment"},
		"object twice":          {[]string{clusterRole}, nil, "ClusterRole.rbac.authorization.k8s.io copier is twice in Objects"},
		"object without kind":   {nil, func(o *olm.Options) { o.Objects = append(o.Objects, &kindless{}) }, "object 5 of Objects: *olm_test.kindless has no apiVersion and kind"},
		"nil object":            {nil, func(o *olm.Options) { o.Objects = append(o.Objects, nil) }, "object 5 of Objects is nil"},
		"nil pointer":           {nil, func(o *olm.Options) { o.Objects = append(o.Objects, (*corev1.ConfigMap)(nil)) }, "object 5 of Objects is nil"},
		"object without name":   {[]string{`{apiVersion: v1, kind: ConfigMap, metadata: {generateName: x-}}`}, nil, "object 5 of Objects, a ConfigMap: the object has no name"},
		"name with slash":       {[]string{`{apiVersion: v1, kind: ConfigMap, metadata: {name: "x/../../../../escaped"}}`}, nil, `object 5 of Objects, a ConfigMap: the name "x/../../../../escaped" is invalid`},
		"CRD with slash":        {[]string{strings.Replace(crd, "group: example.com", "group: x/../../../../escaped", 1)}, nil, "the file x/../../../../escaped_copies would not be in the folder manifests"},
		"image without tag":     {nil, func(o *olm.Options) { o.Image = "registry.example.com/copier" }, `the image "registry.example.com/copier" of the container "manager" has no tag`},
		"image with tag latest": {nil, func(o *olm.Options) { o.Image = "registry.example.com/copier:latest" }, "has the tag latest, which changes"},
		"invalid image":         {nil, func(o *olm.Options) { o.Image = "Registry//copier:v1" }, `the image "Registry//copier:v1" of the container "manager" is invalid`},
		"no container manager": {nil, func(o *olm.Options) {
			set(containers("a:v1", "b:v1"), "Deployment", containersOf...)(o)
			o.Image = "c:v1"
		}, `no container is named "manager"`},
		"sidecar without tag":      {nil, set(containers("a:v1", "b"), "Deployment", containersOf...), `the image "b" of the container "c1" has no tag`},
		"two namespaces":           {[]string{`{apiVersion: apps/v1, kind: Deployment, metadata: {name: second, namespace: other}, spec: {selector: {matchLabels: {app: second}}, template: {metadata: {labels: {app: second}}, spec: {serviceAccountName: copier, containers: [{name: c, image: "c:v1"}]}}}}`}, nil, `the Deployment second is in the namespace "other"`},
		"no roles":                 {nil, without("ClusterRole"), "the service account copier has no roles"},
		"role elsewhere":           {[]string{strings.ReplaceAll(role, "copier-system", "other")}, nil, `the Role copier is in the namespace "other", but OLM grants no permissions in other namespaces`},
		"role of others elsewhere": {[]string{clusterRoleBinding("copier", "copier"), strings.ReplaceAll(role, "copier-system", "other")}, nil, `the Role copier is in the namespace "other", but OLM grants no permissions in other namespaces`},
		"binding elsewhere":        {[]string{boundRole}, nil, `the RoleBinding copier is in the namespace "other"`},
		"missing role":             {[]string{clusterRoleBinding("missing", "copier")}, nil, "the ClusterRoleBinding missing refers to the ClusterRole missing, which is not in Objects"},
		"other subjects":           {[]string{strings.Replace(clusterRoleBinding("copier", "copier"), "subjects: [", "subjects: [{kind: Group, name: admins, apiGroup: rbac.authorization.k8s.io}, ", 1)}, nil, "is for a service account of a Deployment and for other subjects"},
		"aggregated role":          {[]string{`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all}, aggregationRule: {}, rules: []}`, clusterRoleBinding("all", "copier")}, nil, "the ClusterRole all has an aggregationRule"},
		"two accounts, no binding": {[]string{`{apiVersion: apps/v1, kind: Deployment, metadata: {name: second, namespace: copier-system}, spec: {selector: {matchLabels: {app: second}}, template: {metadata: {labels: {app: second}}, spec: {containers: [{name: c, image: "c:v1"}]}}}}`}, nil, `Objects has no bindings, and Deployments with the service accounts ["copier" "default"]`},
		"owned kind without CRD":   {nil, set([]any{map[string]any{"name": "copies.example.com", "kind": "Copy", "version": "v1"}}, "ClusterServiceVersion", "spec", "customresourcedefinitions", "owned"), `owns the version "v1" of copies.example.com, but Objects has no CRD that serves it`},
		"sample without CRD":       {[]string{`{apiVersion: example.com/v1, kind: Copy, metadata: {name: one}}`}, nil, "Copy.example.com one: OLM does not install objects of this kind in example.com/v1, and Objects has no CRD for it"},
		"sample of other version":  {[]string{crd, `{apiVersion: example.com/v2, kind: Copy, metadata: {name: one}}`}, nil, "example must have a provided API"},
		"kind of other group":      {[]string{`{apiVersion: example.com/v1, kind: ConfigMap, metadata: {name: ca}}`}, nil, "ConfigMap.example.com ca: OLM does not install objects of this kind"},
		"unsupported kind":         {[]string{`{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: ca}}`}, nil, "Issuer.cert-manager.io ca: OLM does not install objects of this kind"},
		"invalid CRD":              {[]string{strings.Replace(crd, "singular: copy", "singular: Copy", 1)}, nil, "manifests/example.com_copies.yaml: "},
		"old CRD":                  {[]string{strings.Replace(crd, "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1", 1)}, nil, "OLM does not install objects of this kind in apiextensions.k8s.io/v1beta1"},
		"same file":                {[]string{`{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: a}}`, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: b}}`}, nil, "two objects would be in the file manifests/configmap_one.yaml"},
		"webhook with URL":         {[]string{webhook(`clientConfig: {url: "https://example.com"}`)}, nil, "the webhook validate.copier.example.com has no Service"},
		"webhook, no Service":      {[]string{webhook(`clientConfig: {service: {name: missing, namespace: copier-system}}`)}, nil, "refers to the Service missing, which is not in Objects"},
		"webhook, other port":      {[]string{webhook(`clientConfig: {service: {name: copier-webhooks, namespace: copier-system, port: 8443}}`)}, nil, "refers to the port 8443 of the Service copier-webhooks"},
		"webhook, second port": {[]string{webhook(service)}, set([]any{map[string]any{"name": "webhooks", "port": int64(443)}, map[string]any{"name": "metrics", "port": int64(8443)}}, "Service", "spec", "ports"),
			"the Service copier-webhooks has the port 8443, which no webhook uses"},
		"webhook, namespaces": {[]string{webhook(service + `, namespaceSelector: {matchLabels: {a: b}}`)}, nil, "has a namespaceSelector, which OLM replaces"},
		"webhook, conditions": {[]string{webhook(service + `, matchConditions: [{name: big, expression: "true"}]`)}, nil, "has matchConditions, which OLM omits"},
		"no provider":         {nil, set("", "ClusterServiceVersion", "spec", "provider", "name"), "manifests/copier.clusterserviceversion.yaml: "},
		"no mail address":     {nil, set([]any{map[string]any{"name": "a", "email": "b"}}, "ClusterServiceVersion", "spec", "maintainers"), "csv.Spec.Maintainers email b is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := copier(t, append([]string{clusterRole}, test.objects...)...)
			if test.change != nil {
				test.change(&o)
			}
			parent := t.TempDir()
			g.Expect(olm.Write(filepath.Join(parent, "bundle"), o)).To(MatchError(ContainSubstring(test.want)))
			g.Expect(os.ReadDir(parent)).To(BeEmpty(), "a failed Write must not leave files")
		})
	}
}

// A kindless object is of a type that the package does not know.
type kindless struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (k *kindless) DeepCopyObject() runtime.Object { return k }

func TestWrite_ReportsAllProblems(t *testing.T) {
	g := NewWithT(t)
	err := olm.Write(filepath.Join(t.TempDir(), "bundle"), olm.Options{})
	for _, want := range []string{"the package", "Version", "Channels", "ClusterServiceVersion", "Deployment"} {
		g.Expect(err).To(MatchError(ContainSubstring(want)))
	}
}

func TestWrite_FailureKeepsOldBundle(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	g.Expect(olm.Write(dir, copier(t, clusterRole))).To(Succeed())
	before := folder(t, dir)

	invalid := copier(t, clusterRole) // the validators reject it after all files have been written elsewhere
	set("", "ClusterServiceVersion", "spec", "provider", "name")(&invalid)
	g.Expect(olm.Write(dir, invalid)).To(MatchError(And(ContainSubstring("no bundle was written"), ContainSubstring(dir), Not(ContainSubstring(".new-")))))
	g.Expect(folder(t, dir)).To(Equal(before))
	entries, err := os.ReadDir(filepath.Dir(dir))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(HaveLen(1))
}

func TestWrite_KeepsOtherFilesAndAnnotations(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	g.Expect(olm.Write(dir, copier(t, clusterRole, crd))).To(Succeed())
	path := filepath.Join(dir, "metadata", "annotations.yaml")
	text, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(path, append(text, "  com.redhat.openshift.versions: v4.18\n"...), 0o600)).To(Succeed())
	properties := filepath.Join(dir, "metadata", "properties.yaml")
	g.Expect(os.WriteFile(properties, []byte("properties:\n- type: olm.maxOpenShiftVersion\n  value: \"4.20\"\n"), 0o600)).To(Succeed())

	g.Expect(olm.Write(dir, copier(t, clusterRole))).To(Succeed())
	files := folder(t, dir)
	g.Expect(files).To(HaveKey("metadata/properties.yaml"))
	g.Expect(files).NotTo(HaveKey("manifests/example.com_copies.yaml"))
	g.Expect(files["metadata/annotations.yaml"]).To(ContainSubstring("com.redhat.openshift.versions: v4.18"))
	g.Expect(files["bundle.Dockerfile"]).To(ContainSubstring(`LABEL com.redhat.openshift.versions="v4.18"`))
}

// A Role without a namespace is not the bound Role of the same name.
func TestWrite_RolesOfSameName(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	binding := strings.ReplaceAll(strings.SplitAfter(boundRole, "---\n")[1], "namespace: other", "namespace: copier-system")
	g.Expect(olm.Write(dir, copier(t, clusterRole, clusterRoleBinding("copier", "copier"), role, binding, strings.Replace(role, ", namespace: copier-system", "", 1)))).To(Succeed())
	g.Expect(folder(t, dir)).To(HaveKey("manifests/role_copier.yaml"))
}

func TestWrite_RejectsSymbolicLinks(t *testing.T) {
	for _, name := range []string{"manifests", "metadata", "metadata/annotations.yaml", "bundle.Dockerfile"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			parent := t.TempDir()
			dir, target := filepath.Join(parent, "bundle"), filepath.Join(parent, "target")
			g.Expect(olm.Write(dir, copier(t, clusterRole))).To(Succeed())
			g.Expect(os.Rename(filepath.Join(dir, name), target)).To(Succeed())
			g.Expect(os.Symlink(target, filepath.Join(dir, name))).To(Succeed())
			before := folder(t, parent)

			o := copier(t, clusterRole)
			o.Channels = []string{"other"}
			g.Expect(olm.Write(dir, o)).To(MatchError(ContainSubstring(filepath.Join(dir, name) + " is a symbolic link")))
			g.Expect(folder(t, parent)).To(Equal(before))
		})
	}
}

func TestWrite_CurrentFolder(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	first, second := copier(t, clusterRole), copier(t, clusterRole, crd)
	g.Expect(olm.Write(dir, first)).To(Succeed())
	t.Chdir(dir)
	g.Expect(olm.Write(".", second)).To(Succeed())
	g.Expect(olm.Validate(".")).To(Succeed())
	g.Expect("manifests/example.com_copies.yaml").To(BeARegularFile())
}

// The folder with the name of a file makes Write fail after it has replaced the manifests and the annotations.
func TestWrite_FailureRestoresOldBundle(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	g.Expect(olm.Write(dir, copier(t, clusterRole))).To(Succeed())
	g.Expect(os.Remove(filepath.Join(dir, "bundle.Dockerfile"))).To(Succeed())
	g.Expect(os.Mkdir(filepath.Join(dir, "bundle.Dockerfile"), 0o750)).To(Succeed())
	before := folder(t, dir)

	o := copier(t, clusterRole, crd)
	o.Channels = []string{"other"}
	g.Expect(olm.Write(dir, o)).NotTo(Succeed())
	g.Expect(folder(t, dir)).To(Equal(before))
	g.Expect(os.ReadDir(filepath.Dir(dir))).To(HaveLen(1))
}

func TestWrite_RejectsFoldersWithOtherFiles(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(olm.Write(dir, copier(t, clusterRole))).To(Succeed(), "the folder is empty")
	other := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(other, "main.go"), nil, 0o600)).To(Succeed())
	g.Expect(olm.Write(other, copier(t, clusterRole))).To(MatchError(ContainSubstring("has files but no metadata/annotations.yaml")))
}

func TestWrite_InstallModes(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	o := copier(t, role)
	g.Expect(olm.Write(dir, o)).To(MatchError(ContainSubstring("OLM v1: the install mode AllNamespaces is not supported")))

	o.OnlyV0 = true
	g.Expect(olm.Write(dir, o)).To(Succeed())
	g.Expect(olm.ValidateV0(dir)).To(Succeed())
	g.Expect(supportedModes(read(t, dir, "copier"))).To(ConsistOf(operatorsv1alpha1.InstallModeTypeOwnNamespace))

	o.OnlyV0 = false
	set([]any{map[string]any{"type": "AllNamespaces", "supported": true}, map[string]any{"type": "OwnNamespace", "supported": true}}, "ClusterServiceVersion", "spec", "installModes")(&o)
	g.Expect(olm.Write(dir, o)).To(Succeed())
	g.Expect(supportedModes(read(t, dir, "copier"))).To(ConsistOf(operatorsv1alpha1.InstallModeTypeAllNamespaces, operatorsv1alpha1.InstallModeTypeOwnNamespace))
}

// Roles of other subjects remain objects of the bundle.
func TestWrite_Roles(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	users := `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: users}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}`
	g.Expect(olm.Write(dir, copier(t, clusterRole, clusterRoleBinding("copier", "copier"), users, clusterRoleBinding("users", "visitors")))).To(Succeed())
	strategy := read(t, dir, "copier").Spec.InstallStrategy.StrategySpec
	g.Expect(strategy.ClusterPermissions).To(HaveLen(1))
	g.Expect(strategy.ClusterPermissions[0].ServiceAccountName).To(Equal("copier"))
	g.Expect(strategy.ClusterPermissions[0].Rules).To(HaveLen(1))
	g.Expect(folder(t, dir)).To(And(HaveKey("manifests/clusterrole_users.yaml"), HaveKey("manifests/clusterrolebinding_users.yaml"), Not(HaveKey("manifests/clusterrole_copier.yaml"))))
}

func TestWrite_Webhooks(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	accept := func(context.Context, *webhooks.Request[*corev1.ConfigMap]) error { return nil }
	configurations, err := webhooks.Manifests(clientgoscheme.Scheme, webhooks.Options{
		Name: "copier.example.com", Namespace: "copier-system",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "copier-webhooks"}},
	}, webhooks.Validating(&corev1.ConfigMap{}, "check", accept, webhooks.EveryNamespace()), webhooks.Mutating(&corev1.ConfigMap{}, "defaults", accept, webhooks.EveryNamespace()))
	g.Expect(err).NotTo(HaveOccurred())
	converted := strings.Replace(crd, "scope: Namespaced", `scope: Namespaced, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: copier-webhooks, namespace: copier-system, path: /convert}}}}`, 1)
	o := copier(t, clusterRole, converted)
	o.Objects = append(o.Objects, configurations...)
	g.Expect(olm.Write(dir, o)).To(Succeed())

	found := read(t, dir, "copier").Spec.WebhookDefinitions
	g.Expect(found).To(HaveLen(3))
	for _, w := range found {
		g.Expect(w.DeploymentName).To(Equal("copier"))
		g.Expect(w.ContainerPort).To(Equal(int32(443)))
		g.Expect(w.TargetPort.IntValue()).To(Equal(9443))
		g.Expect(*w.WebhookPath).To(HavePrefix("/"))
	}
	g.Expect(found[0].Type).To(Equal(operatorsv1alpha1.ValidatingAdmissionWebhook))
	g.Expect(found[1].Type).To(Equal(operatorsv1alpha1.MutatingAdmissionWebhook))
	g.Expect(found[2].ConversionCRDs).To(Equal([]string{"copies.example.com"}))
	g.Expect(folder(t, dir)).NotTo(HaveKey("manifests/service_copier-webhooks.yaml"), "OLM creates the Service")
}

func TestWrite_TypedObjects(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	o := copier(t, clusterRole)
	g.Expect(o.Objects).NotTo(BeEmpty())
	typed := &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(yaml.Unmarshal([]byte(crd), typed)).To(Succeed())
	typed.TypeMeta = metav1.TypeMeta{}
	o.Objects = append(o.Objects, typed, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "defaults", Namespace: "copier-system"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "copier-system"}})
	g.Expect(olm.Write(dir, o)).To(Succeed())
	g.Expect(folder(t, dir)).To(HaveKeyWithValue("manifests/configmap_defaults.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: defaults\n"))
}

func TestReadObjects_Invalid(t *testing.T) {
	for text, want := range map[string]string{
		"a: b":                                   "document 1 has no apiVersion or kind",
		"- a":                                    "document 1 is not a Kubernetes object",
		"apiVersion: v1\nkind: A\n---\n{a: a: b": "document 2 is not a Kubernetes object",
		"# empty\n---\n# empty\n---\na: b":       "document 3 has no apiVersion or kind",
		"# empty\n---\n- a":                      "document 2 is not a Kubernetes object",
	} {
		_, err := olm.ReadObjects(strings.NewReader(text))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
	}
}

// read returns the ClusterServiceVersion of a bundle.
func read(t testing.TB, dir, name string) *operatorsv1alpha1.ClusterServiceVersion {
	t.Helper()
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(folder(t, dir)["manifests/"+name+".clusterserviceversion.yaml"]), csv)).To(Succeed())
	return csv
}

func supportedModes(csv *operatorsv1alpha1.ClusterServiceVersion) (modes []operatorsv1alpha1.InstallModeType) {
	for _, mode := range csv.Spec.InstallModes {
		if mode.Supported {
			modes = append(modes, mode.Type)
		}
	}
	return modes
}
