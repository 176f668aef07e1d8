package olm_test

import (
	"encoding/base64"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/contrib/olm"
)

const (
	csvFile    = "manifests/shop.clusterserviceversion.yaml"
	ordersFile = "manifests/shop.example.com_orders.yaml"
	metadata   = "metadata/annotations.yaml"
)

// A change replaces a text in a file of the bundle in testdata/shop. Without an old text, it replaces the whole file, and without both, it removes the file.
type change struct{ file, old, new string }

const (
	bundleKey = "operators.operatorframework.io.bundle."
	// admission is a valid webhook in a ClusterServiceVersion.
	admission = `
  - {type: ValidatingAdmissionWebhook, generateName: check.shop.example.com, deploymentName: shop-controller-manager, containerPort: 443, sideEffects: None,
    admissionReviewVersions: [v1], rules: [{apiGroups: [shop.example.com], apiVersions: [v1], operations: [CREATE], resources: [orders]}]}`
	conversion = `
  - {type: ConversionWebhook, generateName: convert.shop.example.com, deploymentName: shop-controller-manager, containerPort: 443, sideEffects: None,
    admissionReviewVersions: [v1], conversionCRDs: [orders.shop.example.com]}`
	allNamespaces = "supported: true\n    type: AllNamespaces"
	version       = "  version: 0.1.0\n"
)

// webhooksIn adds webhooks to the ClusterServiceVersion.
func webhooksIn(list ...string) change {
	return change{csvFile, version, version + "  webhookdefinitions:" + strings.Join(list, "") + "\n"}
}

// Every change makes the bundle of examples/kubebuilder invalid.
func TestValidate_RejectsWrongBundles(t *testing.T) {
	random := make([]byte, 800_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // it returns no error
	large := base64.StdEncoding.EncodeToString(random)
	ownNamespace := []change{
		{csvFile, "supported: false\n    type: OwnNamespace", "supported: true\n    type: OwnNamespace"}, {csvFile, allNamespaces, "supported: false\n    type: AllNamespaces"},
	}
	for name, test := range map[string]struct {
		changes []change
		want    string // the file, and the start of the message
	}{
		// The form of the folder.
		"no annotations":              {[]change{{metadata, "", ""}}, metadata + ": " + bundleKey + `mediatype.v1 is "": set it to "registry+v1"`},
		"invalid annotations":         {[]change{{metadata, "", "annotations: ["}}, metadata + ": "},
		"other media type":            {[]change{{metadata, "registry+v1", "helm"}}, metadata + ": " + bundleKey + `mediatype.v1 is "helm"`},
		"no package":                  {[]change{{metadata, "package.v1: shop", `package.v1: ""`}}, metadata + `: the package "" is invalid`},
		"invalid package":             {[]change{{metadata, "package.v1: shop", `package.v1: "My Shop!"`}}, metadata + `: the package "My Shop!" is invalid`},
		"no channels":                 {[]change{{metadata, "channels.v1: stable", `channels.v1: ""`}}, metadata + `: the channel "" is invalid`},
		"invalid channel":             {[]change{{metadata, "channels.v1: stable", `channels.v1: "stable, fast"`}}, metadata + `: the channel " fast" is invalid`},
		"default channel":             {[]change{{metadata, "default.v1: stable", "default.v1: fast"}}, metadata + `: the default channel "fast" is not one of the channels ["stable"]`},
		"label in Dockerfile":         {[]change{{"bundle.Dockerfile", `package.v1="shop"`, `package.v1="store"`}}, "bundle.Dockerfile: the label " + bundleKey + "package.v1 differs"},
		"label in comment":            {[]change{{"bundle.Dockerfile", "LABEL " + bundleKey + "package", "# LABEL " + bundleKey + "package"}}, "bundle.Dockerfile: the label " + bundleKey + "package.v1 differs"},
		"no manifests in image":       {[]change{{"bundle.Dockerfile", "COPY manifests /manifests/", "COPY manifests /other/"}}, "bundle.Dockerfile: the folder manifests is not copied"},
		"no metadata in image":        {[]change{{"bundle.Dockerfile", "COPY metadata /metadata/", ""}}, "bundle.Dockerfile: the folder metadata is not copied"},
		"no ClusterServiceVersion":    {[]change{{csvFile, "", ""}}, "manifests: there is no ClusterServiceVersion"},
		"two ClusterServiceVersions":  {[]change{{"manifests/a.yaml", "", "{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {name: a}}"}}, csvFile + ": manifests/a.yaml also has a ClusterServiceVersion"},
		"two objects in a file":       {[]change{{"manifests/a.yaml", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"}}, "manifests/a.yaml: the file has 2 objects"},
		"no object in a file":         {[]change{{"manifests/a.yaml", "", "# nothing"}}, "manifests/a.yaml: the file has 0 objects"},
		"object without name":         {[]change{{"manifests/a.yaml", "", "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}"}}, "manifests/a.yaml: the object has no name"},
		"object with invalid name":    {[]change{{"manifests/a.yaml", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: ../a}}"}}, `manifests/a.yaml: the name "../a" is invalid`},
		"object in two files":         {[]change{{"manifests/a.yaml", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"}, {"manifests/b.yaml", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}"}}, "manifests/b.yaml: manifests/a.yaml also has ConfigMap a"},
		"CRD in two files":            {[]change{{"manifests/a.yaml", "", folder(t, golden)[ordersFile]}}, ordersFile + ": manifests/a.yaml also has CustomResourceDefinition.apiextensions.k8s.io orders.shop.example.com"},
		"hidden file":                 {[]change{{"manifests/.a.yaml", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"}}, "manifests/.a.yaml: OLM does not read hidden files"},
		"version of base":             {[]change{{csvFile, "operators.coreos.com/v1alpha1", "operators.coreos.com/v1"}}, csvFile + ": the apiVersion operators.coreos.com/v1 is not that of a ClusterServiceVersion"},
		"version of CRD":              {[]change{{ordersFile, "apiextensions.k8s.io/v1", "example.com/v1"}}, ordersFile + ": the apiVersion example.com/v1 is not that of a CustomResourceDefinition"},
		"replaces itself":             {[]change{{csvFile, version, version + "  replaces: shop.v0.1.0\n"}}, csvFile + ": shop.v0.1.0 cannot replace or skip the same version"},
		"skips itself":                {[]change{{csvFile, version, version + "  skips: [shop.v0.1.0]\n"}}, csvFile + ": shop.v0.1.0 cannot replace or skip the same version"},
		"account without roles":       {[]change{{csvFile, "serviceAccountName: shop-controller-manager\n              ", "serviceAccountName: other\n              "}}, csvFile + ": the service account other of the Deployment shop-controller-manager has no permissions"},
		"folder in manifests":         {[]change{{"manifests/crd/a.yaml", "", "a: b"}}, "manifests/crd: OLM does not read folders in manifests"},
		"not YAML":                    {[]change{{"manifests/a.yaml", "", "a: ["}}, "manifests/a.yaml: document 1 is not a Kubernetes object"},
		"unknown field":               {[]change{{csvFile, "  maturity:", "  maturityy:"}}, csvFile + `: strict decoding error: unknown field "spec.maturityy"`},
		"invalid version":             {[]change{{csvFile, version, "  version: one\n"}}, csvFile + ": "},
		"invalid properties":          {[]change{{"metadata/properties.yaml", "", "properties: {a: b}"}}, "metadata/properties.yaml: the properties or dependencies are invalid"},
		"invalid property annotation": {[]change{{csvFile, "capabilities: Basic Install", "olm.properties: '{'"}}, csvFile + ": the properties or dependencies are invalid"},
		"property annotation in YAML": {[]change{{csvFile, "capabilities: Basic Install", "olm.properties: '[{type: olm.maxOpenShiftVersion}]'"}}, csvFile + ": the properties or dependencies are invalid"},
		"unreadable CRD":              {[]change{{ordersFile, "served: true", "served: [a]"}}, ordersFile + ": "},

		// The validators of operator-framework, at least one rule of each that can fail.
		"ClusterServiceVersion: name":       {[]change{{csvFile, "name: shop.v0.1.0", "name: Shop"}}, csvFile + `: metadata.name "Shop" is invalid`},
		"ClusterServiceVersion: field":      {[]change{{csvFile, "displayName: Shop", `displayName: ""`}}, csvFile + ": Field Spec.DisplayName"},
		"ClusterServiceVersion: examples":   {[]change{{csvFile, `"kind": "Order"`, `"kind": "Refund"`}}, csvFile + ": Value shop.example.com/v1, Kind=Refund: example must have a provided API"},
		"ClusterServiceVersion: JSON":       {[]change{{csvFile, `"kind": "Order",`, `"kind": "Order"`}}, csvFile + ": Value invalid character"},
		"ClusterServiceVersion: modes":      {[]change{{csvFile, allNamespaces, "supported: false\n    type: AllNamespaces"}}, csvFile + ": none of InstallModeTypes are supported"},
		"ClusterServiceVersion: Kubernetes": {[]change{{csvFile, "minKubeVersion: 1.34.0", `minKubeVersion: "1.34"`}}, csvFile + ": csv.Spec.MinKubeVersion has an invalid value"},
		"CustomResourceDefinition":          {[]change{{ordersFile, "name: orders.shop.example.com", "name: order.shop.example.com"}}, "manifests/shop.example.com_orders.yaml: Field metadata.name"},
		"Bundle: CRD is not owned":          {[]change{{csvFile, "kind: Order\n      name: orders.shop", "kind: Refund\n      name: refunds.shop"}}, csvFile + `: Value shop.example.com/v1, Kind=Refund: owned CRD "shop.example.com/v1, Kind=Refund" not found in bundle`},
		"Bundle: size":                      {[]change{{"manifests/a.yaml", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: " + large + "}}"}}, csvFile + ": maximum bundle compressed size with gzip size exceeded"},
		"Bundle: service account":           {[]change{{"manifests/a.yaml", "", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: shop-controller-manager}}"}}, csvFile + ": Value shop-controller-manager: invalid service account found in bundle"},
		"Bundle: related image":             {[]change{{csvFile, version, version + "  relatedImages: [{name: a, image: 'A//b'}]\n"}}, csvFile + ": Value spec.relatedImages[0].image: relatedImages[0] has an invalid image pullspec"},
		"OperatorHub: provider":             {[]change{{csvFile, "provider:\n    name: Example", "provider:\n    name: ''"}}, csvFile + ": csv.Spec.Provider.Name not specified"},
		"OperatorHub: maintainer":           {[]change{{csvFile, "email: shop@example.com", "email: shop"}}, csvFile + ": csv.Spec.Maintainers email shop is invalid"},
		"OperatorHub: icon":                 {[]change{{csvFile, "image/svg+xml", "image/bmp"}}, csvFile + ": csv.Spec.Icon image/bmp does not have a valid mediatype"},
		"OperatorHub: link":                 {[]change{{csvFile, "url: https://github.com/kopf-runtime/kopf-runtime\n  maintainers", "url: a b\n  maintainers"}}, csvFile + ": csv.Spec.Links url a b is invalid"},
		"categories":                        {[]change{{csvFile, "Developer Tools", "Shops"}}, csvFile + `: csv.Metadata.Annotations["categories"] value "Shops" is not in the set of standard categories`},
		"capabilities":                      {[]change{{csvFile, "Basic Install", "All"}}, csvFile + `: csv.Metadata.Annotations.Capabilities "All" is not a valid capabilities level`},
		"objects":                           {[]change{{"manifests/a.yaml", "", "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {maxUnavailable: 0, selector: {matchLabels: {a: b}}}}"}}, "manifests/a.yaml: "},
		"removed APIs":                      {[]change{{"manifests/a.yaml", "", "{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {maxUnavailable: 1, selector: {matchLabels: {a: b}}}}"}}, csvFile + ": this bundle is using APIs which were deprecated and removed in v1.25"},
		"community: removed APIs":           {[]change{{"manifests/a.yaml", "", "{apiVersion: rbac.authorization.k8s.io/v1beta1, kind: ClusterRole, metadata: {name: a}}"}}, csvFile + ": csv.Annotations not specified olm.maxOpenShiftVersion"},

		// The rules of OLM v1.
		"v1: AllNamespaces":         {ownNamespace, csvFile + ": OLM v1: the install mode AllNamespaces is not supported"},
		"v1: two Deployments":       {[]change{{csvFile, "      deployments:\n", "      deployments:\n      - {name: shop-controller-manager, spec: {selector: {}, template: {}}}\n"}}, csvFile + `: OLM v1: two Deployments have the name "shop-controller-manager"`},
		"v1: name of Deployment":    {[]change{{csvFile, "        name: shop-controller-manager\n", "        name: Shop\n"}}, csvFile + `: OLM v1: the name of the Deployment "Shop" is invalid`},
		"v1: owned CRD":             {[]change{{csvFile, "name: orders.shop", "name: refunds.shop"}}, csvFile + ": OLM v1: there is no CRD for the owned kind refunds.shop.example.com"},
		"v1: kind":                  {[]change{{"manifests/a.yaml", "", "{apiVersion: batch/v1, kind: Job, metadata: {name: a}}"}}, "manifests/a.yaml: OLM v1: objects of the kind Job.batch are not installed"},
		"v1: kind of other group":   {[]change{{"manifests/a.yaml", "", "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}"}}, "manifests/a.yaml: OLM v1: objects of the kind Service.serving.knative.dev are not installed"},
		"v1: required CRD":          {[]change{{csvFile, "customresourcedefinitions:\n", "customresourcedefinitions:\n    required: [{name: a.example.com, kind: A, version: v1}]\n"}}, csvFile + ": OLM v1: dependencies are not supported: remove a.example.com"},
		"v1: required API":          {[]change{{csvFile, "apiservicedefinitions: {}", "apiservicedefinitions: {required: [{name: a, group: b, version: v1, kind: A}]}"}}, csvFile + ": OLM v1: dependencies are not supported: remove a from"},
		"v1: aggregated API":        {[]change{{csvFile, "apiservicedefinitions: {}", "apiservicedefinitions: {owned: [{name: a, group: b, version: v1, kind: A}]}"}}, csvFile + ": OLM v1: aggregated APIs are not supported"},
		"v1: dependency on package": {[]change{{"metadata/dependencies.yaml", "", "dependencies: [{type: olm.package, value: {packageName: a, version: 1.0.0}}]"}}, "metadata/dependencies.yaml: OLM v1: dependencies are not supported: remove the dependency of the type olm.package"},
		"v1: dependency on kind":    {[]change{{"metadata/dependencies.yaml", "", "dependencies: [{type: olm.gvk, value: {group: a, version: v1, kind: A}}]"}}, "metadata/dependencies.yaml: OLM v1: dependencies are not supported: remove the dependency of the type olm.gvk"},
		"v1: constraint":            {[]change{{"metadata/properties.yaml", "", "properties: [{type: olm.constraint, value: {}}]"}}, "metadata/properties.yaml: OLM v1: dependencies are not supported: remove the dependency of the type olm.constraint"},
		"v1: property":              {[]change{{csvFile, "capabilities: Basic Install", `olm.properties: '[{"type":"olm.package.required","value":{}}]'`}}, csvFile + ": OLM v1: dependencies are not supported: remove the dependency of the type olm.package.required"},
		"v1: Deployment of webhook": {[]change{webhooksIn(strings.Replace(admission, "deploymentName: shop-controller-manager", "deploymentName: a", 1))}, csvFile + `: OLM v1: the webhook check.shop.example.com refers to the Deployment "a", which does not exist`},
		"v1: two webhooks":          {[]change{webhooksIn(admission, admission)}, csvFile + `: OLM v1: two webhooks of the type ValidatingAdmissionWebhook have the name "check.shop.example.com"`},
		"v1: name of webhook":       {[]change{webhooksIn(strings.Replace(admission, "check.shop", "Check.shop", 1))}, csvFile + `: OLM v1: the name of the webhook "Check.shop.example.com" is invalid`},
		"v1: all groups":            {[]change{webhooksIn(strings.Replace(admission, "apiGroups: [shop.example.com]", "apiGroups: ['*']", 1))}, csvFile + `: OLM v1: the webhook check.shop.example.com has a rule for the API group "*"`},
		"v1: its own group":         {[]change{webhooksIn(strings.Replace(admission, "apiGroups: [shop.example.com]", "apiGroups: [olm.operatorframework.io]", 1))}, csvFile + `: OLM v1: the webhook check.shop.example.com has a rule for the API group "olm.operatorframework.io"`},
		"v1: configurations": {[]change{webhooksIn(strings.NewReplacer("apiGroups: [shop.example.com]", "apiGroups: [admissionregistration.k8s.io]", "resources: [orders]", "resources: [MutatingWebhookConfigurations]").Replace(admission))},
			csvFile + ": OLM v1: the webhook check.shop.example.com has a rule for MutatingWebhookConfigurations"},
		"v1: conversion, modes":    {[]change{webhooksIn(conversion), ownNamespace[0]}, csvFile + ": OLM v1: the conversion webhook convert.shop.example.com needs AllNamespaces as the only install mode"},
		"v1: conversion, other":    {[]change{webhooksIn(strings.Replace(conversion, "[orders.", "[refunds.", 1))}, csvFile + ": OLM v1: the conversion webhook convert.shop.example.com is for the CRD refunds.shop.example.com, which the bundle does not own"},
		"v1: conversion twice":     {[]change{webhooksIn(conversion, strings.Replace(conversion, "convert.", "convert2.", 1))}, csvFile + ": OLM v1: the conversion webhooks convert.shop.example.com and convert2.shop.example.com are for the same CRD"},
		"v1: conversion, preserve": {[]change{webhooksIn(conversion), {ordersFile, "  scope: Namespaced", "  preserveUnknownFields: true\n  scope: Namespaced"}}, csvFile + ": OLM v1: the conversion webhook convert.shop.example.com is for the CRD orders.shop.example.com, which has preserveUnknownFields"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := changed(t, test.changes...)
			err := olm.Validate(dir)
			NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("the bundle in "+dir+" is invalid"), ContainSubstring("\n  "+test.want))))
		})
	}
}

func TestValidateV0_OmitsRulesOfV1(t *testing.T) {
	g := NewWithT(t)
	dir := changed(t, change{"metadata/dependencies.yaml", "", "dependencies: [{type: olm.package, value: {packageName: a, version: 1.0.0}}]"})
	g.Expect(olm.Validate(dir)).NotTo(Succeed())
	g.Expect(olm.ValidateV0(dir)).To(Succeed())
}

func TestValidateV0_RejectsMissingPackage(t *testing.T) {
	dir := changed(t, change{metadata, "package.v1: shop", `package.v1: ""`}, change{"bundle.Dockerfile", "", ""})
	NewWithT(t).Expect(olm.ValidateV0(dir)).To(MatchError(ContainSubstring(`the package "" is invalid`)))
}

// A problem of the folder, or in one file, does not hide those of the validators and of OLM v1.
func TestValidate_ReportsAllProblems(t *testing.T) {
	dir := changed(t, change{metadata, "default.v1: stable", "default.v1: fast"}, change{"manifests/a.yaml", "", "a: ["}, change{csvFile, "displayName: Shop", `displayName: ""`},
		change{csvFile, "  maturity:", "  maturityy:"}, change{csvFile, allNamespaces, "supported: false\n    type: AllNamespaces"})
	NewWithT(t).Expect(olm.Validate(dir)).To(MatchError(And(
		ContainSubstring(`the default channel "fast"`), ContainSubstring("manifests/a.yaml: document 1"), ContainSubstring(`unknown field "spec.maturityy"`),
		ContainSubstring("Field Spec.DisplayName"), ContainSubstring("OLM v1: the install mode AllNamespaces"),
	)))
}

func TestValidate_AcceptsDockerfileOfOperatorSDK(t *testing.T) {
	NewWithT(t).Expect(olm.Validate(changed(t, change{"bundle.Dockerfile", "COPY manifests", "COPY bundle/manifests"},
		change{"bundle.Dockerfile", "\nLABEL " + bundleKey + "package", " \\\n  # the name\n  " + bundleKey + "package"}))).To(Succeed())
}

func TestValidate_AcceptsWebhooks(t *testing.T) {
	NewWithT(t).Expect(olm.Validate(changed(t, webhooksIn(admission, conversion)))).To(Succeed())
}

func TestValidate_WithoutDockerfile(t *testing.T) {
	NewWithT(t).Expect(olm.Validate(changed(t, change{"bundle.Dockerfile", "", ""}))).To(Succeed())
}

func TestValidate_CurrentFolder(t *testing.T) {
	t.Chdir(golden)
	NewWithT(t).Expect(olm.Validate(".")).To(Succeed())
}

func TestValidate_NoFolder(t *testing.T) {
	NewWithT(t).Expect(olm.Validate(filepath.Join(t.TempDir(), "missing"))).To(MatchError(ContainSubstring("manifests: the folder cannot be read")))
}

func TestWarnings(t *testing.T) {
	g := NewWithT(t)
	warnings, err := olm.Warnings(changed(t, change{csvFile, "minKubeVersion: 1.34.0", "minKubeVersion: ''"}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(ContainElement(ContainSubstring(csvFile + ": csv.Spec.minKubeVersion is not informed")))
	_, err = olm.Warnings(t.TempDir())
	g.Expect(err).To(HaveOccurred())
}

// changed returns a copy of the bundle in testdata/shop with changes.
func changed(t testing.TB, changes ...change) string {
	t.Helper()
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	g.Expect(os.CopyFS(dir, os.DirFS(golden))).To(Succeed())
	for _, c := range changes {
		path := filepath.Join(dir, filepath.FromSlash(c.file))
		switch {
		case c.old == "" && c.new == "":
			g.Expect(os.Remove(path)).To(Succeed())
			continue
		case c.old != "":
			text, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(text)).To(ContainSubstring(c.old), "the change has no effect")
			c.new = strings.ReplaceAll(string(text), c.old, c.new)
		}
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(c.new), 0o600)).To(Succeed())
	}
	return dir
}
