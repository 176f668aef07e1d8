package olm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/operator-framework/api/pkg/encoding"
	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	olmvalidation "github.com/operator-framework/api/pkg/validation"
	validationerrors "github.com/operator-framework/api/pkg/validation/errors"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Validate returns an error with all problems of the bundle in a folder, or nil. It checks three groups of rules:
//
//   - the form of the folder: one object with a name in each file, one ClusterServiceVersion, annotations, and labels and copied
//     folders in bundle.Dockerfile,
//   - the validators of github.com/operator-framework/api, including the validators of OperatorHub. Validate omits the
//     validator for multiple architectures, because this validator runs docker to read the images from their registry,
//   - the rules by which OLM v1 (operator-controller) rejects bundles in its default configuration. These need the install mode AllNamespaces and reject
//     dependencies.
//
// If the ClusterServiceVersion cannot be read, Validate checks only the form of the folder. The error does not contain warnings: see [Warnings].
func Validate(dir string) error { return validate(dir, dir, true) }

// ValidateV0 is like [Validate], without the rules of OLM v1. Use it for a bundle that only OLM v0 installs.
func ValidateV0(dir string) error { return validate(dir, dir, false) }

// Warnings returns the recommendations of the validators for a valid bundle, for example to add an icon. It returns an error if
// the form of the folder is invalid.
func Warnings(dir string) ([]string, error) {
	b, err := load(dir)
	if err != nil {
		return nil, err
	}
	_, warnings := b.runValidators()
	return warnings, nil
}

// validators contains the validators of olmvalidation.AllValidators that need no other programs and no network.
var validators = validator.Validators{
	olmvalidation.PackageManifestValidator,
	olmvalidation.ClusterServiceVersionValidator,
	olmvalidation.CustomResourceDefinitionValidator,
	olmvalidation.BundleValidator,
	olmvalidation.OperatorHubV2Validator,
	olmvalidation.StandardCategoriesValidator,
	olmvalidation.StandardCapabilitiesValidator,
	olmvalidation.ObjectValidator,
	olmvalidation.OperatorGroupValidator,
	olmvalidation.CommunityOperatorValidator,
	olmvalidation.AlphaDeprecatedAPIsValidator,
	olmvalidation.GoodPracticesValidator,
}

// removedAPIs makes the validators report APIs that Kubernetes has removed up to this version as errors. The validators know no newer version.
var removedAPIs = map[string]string{"k8s-version": "1.26.0"}

// A bundle is the content of a folder.
type bundle struct {
	annotations map[string]string
	csvFile     string
	csv         *operatorsv1alpha1.ClusterServiceVersion
	files       []manifest
	properties  []property        // dependencies and properties in metadata and annotations
	upstream    *manifests.Bundle // the bundle for the validators
}

// A manifest is a file below manifests.
type manifest struct {
	name string
	obj  *unstructured.Unstructured
}

// validate checks the bundle in the folder dir. Its error contains name instead of dir.
func validate(dir, name string, v1 bool) error {
	b, err := load(dir)
	var problems []string
	if err != nil {
		problems = strings.Split(err.Error(), "\n")
	}
	if b.csv != nil {
		found, _ := b.runValidators()
		problems = append(problems, found...)
		if v1 {
			problems = append(problems, b.checkV1()...)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	text := strings.ReplaceAll(strings.Join(problems, "\n  "), dir, name)
	return fmt.Errorf("the bundle in %s is invalid: correct the options and objects of Write, or these files:\n  %s", name, text)
}

// runValidators returns the errors and the warnings of the validators, each with its file.
func (b *bundle) runValidators() (problems, warnings []string) {
	for _, obj := range b.upstream.ObjectsToValidate() {
		for _, v := range validators {
			for _, result := range v.Validate(obj, removedAPIs) {
				problems = b.appendTexts(problems, b.fileOf(obj), result.Errors)
				warnings = b.appendTexts(warnings, b.fileOf(obj), result.Warnings)
			}
		}
	}
	return problems, warnings
}

// appendTexts appends the texts of a validator without the name of the ClusterServiceVersion. It omits texts that the list already contains, because some
// validators report the same problem.
func (b *bundle) appendTexts(list []string, file string, found []validationerrors.Error) []string {
	for _, e := range found {
		text := e.Error()
		for _, prefix := range []string{"Error: ", "Warning: ", "Value : (" + b.csv.Name + ") ", "Value " + b.csv.Name + ": "} {
			text = strings.TrimPrefix(text, prefix)
		}
		if text = file + ": " + text; !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// fileOf returns the file of an object. For the bundle, it returns the file of the ClusterServiceVersion.
func (b *bundle) fileOf(obj any) string {
	name := ""
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		name = nameOf(o)
	case *apiextensionsv1.CustomResourceDefinition:
		name = qualified(crdKind.GroupKind().String(), "", o.Name)
	}
	for _, file := range b.files {
		if nameOf(file.obj) == name {
			return file.name
		}
	}
	return b.csvFile
}

// load reads the valid parts of a bundle. Its error contains a line for each problem.
func load(dir string) (*bundle, error) {
	b := &bundle{upstream: &manifests.Bundle{}}
	var errs []error
	addf := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	a, err := readAnnotations(dir)
	if err != nil {
		errs = append(errs, err)
	}
	b.annotations = a.Annotations
	errs = append(errs, b.checkAnnotations()...)
	errs = append(errs, b.checkDockerfile(dir)...)

	entries, err := os.ReadDir(filepath.Join(dir, "manifests"))
	if err != nil {
		addf("manifests: the folder cannot be read: %w", err)
	}
	for _, entry := range entries {
		name := "manifests/" + entry.Name()
		if entry.IsDir() {
			addf("%s: OLM does not read folders in manifests: move the files to manifests", name)
			continue
		}
		if strings.HasPrefix(entry.Name(), ".") {
			addf("%s: OLM does not read hidden files: rename or remove the file", name)
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // the caller chooses the folder
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := b.addSize(text); err != nil {
			addf("%s: %w", name, err)
		}
		objects, err := ReadObjects(bytes.NewReader(text))
		if err != nil {
			addf("%s: %s", name, strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		if len(objects) != 1 {
			addf("%s: the file has %d objects, but OLM v0 reads only the first: write each object to its own file", name, len(objects))
		}
		for _, obj := range objects {
			b.files = append(b.files, manifest{name, obj.(*unstructured.Unstructured)})
		}
	}
	names := map[string]string{} // the files of objects; namespaces do not count, because OLM installs all objects in one namespace
	for _, file := range b.files {
		if err := checkName(file.obj.GetName()); err != nil {
			addf("%s: %w", file.name, err)
		}
		name := qualified(kindOf(file.obj), "", file.obj.GetName())
		if other, ok := names[name]; ok {
			addf("%s: %s also has %s: remove one of them", file.name, other, name)
		}
		names[name] = file.name
		if err := b.addObject(file); err != nil {
			addf("%s: %s", file.name, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	if b.csvFile == "" {
		addf("manifests: there is no ClusterServiceVersion: add one")
	}
	if b.csv != nil {
		errs = append(errs, b.checkCSV()...)
	}
	errs = append(errs, b.readProperties(dir))

	b.upstream.Package, b.upstream.DefaultChannel = b.annotations[packageKey], b.annotations[defaultChannelKey]
	b.upstream.Channels = strings.Split(b.annotations[channelsKey], ",")
	return b, errors.Join(errs...)
}

// addSize adds a manifest to the sizes that the validators limit.
func (b *bundle) addSize(text []byte) error {
	compressed, err := encoding.GzipBase64Encode(text)
	b.upstream.Size += int64(len(text))
	b.upstream.CompressedSize += int64(len(compressed))
	return err
}

// addObject adds an object to the fields for its kind. If the object has unknown fields, addObject adds the object and returns
// an error.
func (b *bundle) addObject(file manifest) error {
	b.upstream.Objects = append(b.upstream.Objects, file.obj)
	isUsable := func(err error) bool { return err == nil || runtime.IsStrictDecodingError(err) }
	switch gvk := file.obj.GroupVersionKind(); {
	case gvk == csvKind:
		other := b.csvFile
		b.csvFile = file.name
		csv, err := convert[operatorsv1alpha1.ClusterServiceVersion](file.obj)
		if isUsable(err) {
			b.csv, b.upstream.CSV, b.upstream.Name = csv, csv, csv.Name
		}
		if other != "" {
			return errors.Join(err, fmt.Errorf("%s also has a ClusterServiceVersion: remove one of them", other))
		}
		return err
	case gvk == crdKind:
		crd, err := convert[apiextensionsv1.CustomResourceDefinition](file.obj)
		if isUsable(err) {
			b.upstream.V1CRDs = append(b.upstream.V1CRDs, crd)
		}
		return err
	case gvk.Kind == csvKind.Kind:
		return fmt.Errorf("the apiVersion %s is not that of a %s: set it to %s", gvk.GroupVersion(), csvKind.Kind, csvKind.GroupVersion())
	case gvk.Kind == crdKind.Kind:
		return fmt.Errorf("the apiVersion %s is not that of a %s: set it to %s", gvk.GroupVersion(), crdKind.Kind, crdKind.GroupVersion())
	}
	return nil
}

// checkCSV checks rules for the ClusterServiceVersion that the validators do not check.
func (b *bundle) checkCSV() (errs []error) {
	if spec := b.csv.Spec; b.csv.Name != "" && (spec.Replaces == b.csv.Name || slices.Contains(spec.Skips, b.csv.Name)) {
		errs = append(errs, fmt.Errorf("%s: %s cannot replace or skip the same version: set replaces and skips to older versions", b.csvFile, b.csv.Name))
	}
	for _, d := range b.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		name := d.Spec.Template.Spec.ServiceAccountName
		if name != "" && name != "default" && !hasPermissions(b.csv, name) {
			errs = append(errs, fmt.Errorf("%s: the service account %s of the Deployment %s has no permissions, so OLM would not create it: "+
				"add it to spec.install.spec.permissions or clusterPermissions", b.csvFile, name, d.Name))
		}
	}
	return errs
}

// checkAnnotations checks metadata/annotations.yaml.
func (b *bundle) checkAnnotations() (errs []error) {
	for _, pair := range [][2]string{{mediaTypeKey, mediaType}, {manifestsKey, "manifests/"}, {metadataKey, "metadata/"}} {
		if key, want := pair[0], pair[1]; b.annotations[key] != want {
			errs = append(errs, fmt.Errorf("%s: %s is %q: set it to %q", annotationsFile, key, b.annotations[key], want))
		}
	}
	for _, err := range checkNames(b.annotations[packageKey], strings.Split(b.annotations[channelsKey], ","), b.annotations[defaultChannelKey]) {
		errs = append(errs, fmt.Errorf("%s: %w", annotationsFile, err))
	}
	return errs
}

// checkNames checks the names of the package and of its channels. The default channel is optional.
func checkNames(name string, channels []string, defaultChannel string) (errs []error) {
	if found := validation.IsDNS1123Subdomain(name); len(found) > 0 {
		errs = append(errs, fmt.Errorf("the package %q is invalid: set it to the name of the operator in catalogs, such as \"shop\": %s", name, strings.Join(found, ", ")))
	}
	for _, channel := range channels {
		if channel == "" || strings.ContainsFunc(channel, func(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == '"' }) {
			errs = append(errs, fmt.Errorf("the channel %q is invalid: use a word such as \"stable\", with commas and no spaces between channels", channel))
		}
	}
	if defaultChannel != "" && !slices.Contains(channels, defaultChannel) {
		errs = append(errs, fmt.Errorf("the default channel %q is not one of the channels %q: add it to the channels", defaultChannel, channels))
	}
	return errs
}

// comments matches the lines of a Dockerfile that are comments.
var comments = regexp.MustCompile(`(?m)^[ \t]*#.*\n?`)

// checkDockerfile checks that bundle.Dockerfile has the labels and copies the folders, if it exists.
func (b *bundle) checkDockerfile(dir string) (errs []error) {
	text, err := os.ReadFile(filepath.Join(dir, dockerFile)) //nolint:gosec // the caller chooses the folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []error{err}
	}
	var labels, folders []string
	for line := range strings.Lines(strings.ReplaceAll(comments.ReplaceAllString(string(text), ""), "\\\n", " ")) {
		words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
		switch {
		case len(words) > 1 && strings.EqualFold(words[0], "LABEL"):
			labels = append(labels, words[1:]...)
		case len(words) > 1 && strings.EqualFold(words[0], "COPY"):
			folders = append(folders, strings.Trim(words[len(words)-1], "/"))
		}
	}
	for _, key := range []string{mediaTypeKey, manifestsKey, metadataKey, packageKey, channelsKey, defaultChannelKey} {
		if want := key + "=" + b.annotations[key]; b.annotations[key] != "" && !slices.Contains(labels, want) {
			errs = append(errs, fmt.Errorf("%s: the label %s differs from %s: write it as %s", dockerFile, key, annotationsFile, label(key, b.annotations[key])))
		}
	}
	for _, folder := range []string{"manifests", "metadata"} {
		if !slices.Contains(folders, folder) {
			errs = append(errs, fmt.Errorf("%s: the folder %s is not copied: add COPY %s /%s/", dockerFile, folder, folder, folder))
		}
	}
	return errs
}

// A property is a property or a dependency of a bundle.
type property struct {
	file string
	Type string `json:"type"`
}

// readProperties reads the dependencies and properties in metadata, and the properties in the annotation olm.properties of the
// ClusterServiceVersion.
func (b *bundle) readProperties(dir string) error {
	var errs []error
	add := func(file string, err error, list ...property) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: the properties or dependencies are invalid: %s", file, strings.ReplaceAll(err.Error(), "\n", " ")))
		}
		for _, p := range list {
			b.properties = append(b.properties, property{file, p.Type})
		}
	}
	for _, name := range []string{"metadata/dependencies.yaml", "metadata/properties.yaml"} {
		var content struct {
			Dependencies, Properties []property
		}
		text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // the caller chooses the folder
		if err == nil {
			err := yaml.Unmarshal(text, &content)
			add(name, err, append(content.Dependencies, content.Properties...)...)
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if b.csv != nil {
		if text, ok := b.csv.Annotations["olm.properties"]; ok { // OLM reads JSON only
			var content []property
			err := json.Unmarshal([]byte(text), &content)
			add(b.csvFile, err, content...)
		}
	}
	return errors.Join(errs...)
}
