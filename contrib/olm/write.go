package olm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Options configures [Write].
type Options struct {
	// Package is the name of the operator in catalogs. Required.
	Package string
	// Version is the semantic version of the operator, such as "1.2.0". Required. The name of the ClusterServiceVersion is <Package>.v<Version>.
	Version string
	// Channels are the channels of the catalog that contain this version, such as "stable". Required.
	Channels []string
	// DefaultChannel is the channel for users who do not choose one. Default: the first of the Channels.
	DefaultChannel string
	// Replaces is the name of the ClusterServiceVersion that this version upgrades, such as "shop.v1.1.0". Default: the value in the base.
	Replaces string
	// Skips are the names of ClusterServiceVersions that upgrades skip. Default: the values in the base.
	Skips []string
	// Image is the image of the manager, with a tag or a digest. In the first Deployment, it replaces the image of the
	// container "manager", or of the only container. Default: the image in the Deployment.
	Image string
	// Objects are the objects of the operator. A Deployment, its roles, and a ClusterServiceVersion are required. The
	// ClusterServiceVersion is the base of the written one.
	//
	//   - ClusterServiceVersion: the texts for users: displayName, description, provider, maintainers, icon, minKubeVersion,
	//     annotations. Write keeps its install modes. Without install modes, Write selects AllNamespaces if the operator has
	//     cluster-wide permissions, and otherwise OwnNamespace.
	//   - ClusterRoles and Roles of the Deployment's service account, with their bindings. If there are no bindings at all, all roles are for this account.
	//   - CRDs of the kinds that the operator owns. Objects of these kinds become the examples of the bundle.
	//   - Webhook configurations, with the Services to which they refer. All ports of these Services must be ports of webhooks.
	//   - Objects of other kinds that OLM installs, such as ConfigMap. The bundle contains them without their namespace.
	//
	// Write ignores Namespaces, and the ServiceAccounts of Deployments, which OLM creates.
	Objects []client.Object
	// OnlyV0 omits the rules of OLM v1, for example for an operator with permissions in its own namespace only. See [ValidateV0].
	OnlyV0 bool
}

// The keys of metadata/annotations.yaml and of the labels in bundle.Dockerfile.
const (
	mediaTypeKey      = "operators.operatorframework.io.bundle.mediatype.v1"
	manifestsKey      = "operators.operatorframework.io.bundle.manifests.v1"
	metadataKey       = "operators.operatorframework.io.bundle.metadata.v1"
	packageKey        = "operators.operatorframework.io.bundle.package.v1"
	channelsKey       = "operators.operatorframework.io.bundle.channels.v1"
	defaultChannelKey = "operators.operatorframework.io.bundle.channel.default.v1"

	mediaType       = "registry+v1"
	annotationsFile = "metadata/annotations.yaml"
	dockerFile      = "bundle.Dockerfile"
)

// annotations is the content of metadata/annotations.yaml.
type annotations struct {
	Annotations map[string]string `json:"annotations"`
}

// Write writes a bundle to a folder: manifests, metadata/annotations.yaml, and bundle.Dockerfile, with the folder as its
// context. It validates the bundle as [Validate] does, and then replaces an existing bundle. If it returns an error, an
// existing bundle is unchanged, unless the error says that the old bundle could not be restored.
//
// In an existing bundle, Write replaces manifests, metadata/annotations.yaml and bundle.Dockerfile. It keeps other annotations of the bundle, and other files,
// such as metadata/properties.yaml. It returns an error if manifests, metadata or bundle.Dockerfile are or contain symbolic links.
//
// Write prepares the files in a temporary folder next to the target, with the name <folder>.new-<number>. It replaces the manifests first, then the
// annotations, then the Dockerfile. If the process ends in between, the bundle can have old and new files, or no manifests. The temporary folder then contains
// the other files, with the suffix .old for old files. Call Write again to complete the bundle, and then remove the temporary folder.
//
// Do not call Write for one folder concurrently.
func Write(dir string, o Options) error {
	dir, exists, err := existingBundle(dir)
	if err != nil {
		return err
	}
	files, err := render(o)
	if err != nil {
		return fmt.Errorf("no bundle was written, because the options are invalid:\n%w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // bundles are public
		return err
	}
	stage, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".new-")
	if err != nil {
		return err
	}
	isNeeded := false
	defer func() {
		if !isNeeded {
			_ = os.RemoveAll(stage) // a failure does not affect the bundle
		}
	}()
	if err := os.CopyFS(filepath.Join(stage, "metadata"), os.DirFS(filepath.Join(dir, "metadata"))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known, err := readAnnotations(stage)
	if err != nil {
		return err
	}
	if err := o.addMetadata(files, known.Annotations); err != nil {
		return err
	}
	if err := writeFiles(stage, files); err != nil {
		return err
	}
	if err := validate(stage, dir, !o.OnlyV0); err != nil {
		return fmt.Errorf("no bundle was written: %w", err)
	}
	if !exists {
		return os.Rename(stage, dir)
	}
	isNeeded, err = exchange(stage, dir)
	return err
}

// existingBundle returns the absolute path of a folder, with resolved symbolic links, and whether the folder exists. An
// existing folder must be empty or a bundle.
func existingBundle(dir string) (path string, exists bool, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", false, err
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, false, nil
	}
	if err != nil {
		return "", false, err
	}
	if _, err := os.Stat(filepath.Join(dir, annotationsFile)); err != nil && len(entries) > 0 {
		return "", false, fmt.Errorf("the folder %s has files but no %s: choose an empty folder or the folder of a bundle", dir, annotationsFile)
	}
	return dir, true, checkLinks(dir)
}

// checkLinks returns an error if a file that Write reads or replaces is a symbolic link.
func checkLinks(dir string) error {
	for _, name := range []string{"manifests", "metadata", dockerFile} {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type()&fs.ModeSymlink != 0 {
				return fmt.Errorf("%s is a symbolic link: replace it with its content", path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // bundles are public
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // bundles are public
			return err
		}
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // bundles are public
}

// exchange moves the manifests, the annotations and the Dockerfile to the folder of the bundle. The stage keeps the old files.
// If exchange fails, it restores the old files. isNeeded reports whether the stage still has files that could not be restored.
func exchange(stage, dir string) (isNeeded bool, err error) {
	var undo [][2]string
	metadata := filepath.Join(dir, "metadata")
	if err := os.MkdirAll(metadata, 0o755); err != nil { //nolint:gosec // bundles are public
		return false, err
	}
	for _, name := range []string{"manifests", annotationsFile, dockerFile} {
		current, next := filepath.Join(dir, name), filepath.Join(stage, name)
		old, backup := next+".old", copyFile // renaming a file replaces the old file atomically
		if name == "manifests" {
			backup = os.Rename
		}
		if err = backup(current, old); err == nil {
			undo = append(undo, [2]string{old, current})
		} else if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err = os.Rename(next, current); err != nil {
			break
		}
		undo = append(undo, [2]string{current, next})
	}
	if err == nil {
		return false, nil
	}
	for _, step := range slices.Backward(undo) {
		if failed := os.Rename(step[0], step[1]); failed != nil {
			isNeeded, err = true, errors.Join(err, failed)
		}
	}
	if isNeeded {
		err = fmt.Errorf("the old bundle could not be restored: copy its files, with the suffix .old, from %s: %w", stage, err)
	}
	_ = os.Remove(metadata) // only if it is empty
	return isNeeded, err
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from) //nolint:gosec // the caller chooses the folder
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644) //nolint:gosec // bundles are public
}

// check returns the errors in Package, Version, Channels and DefaultChannel.
func (o Options) check() (errs []error) {
	addf := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch _, err := semver.Parse(o.Version); {
	case o.Version == "":
		addf("Options has no Version: set it to the semantic version of the operator, such as \"1.2.0\"")
	case err != nil:
		addf("the Version %q is not a semantic version such as \"1.2.0\": %w", o.Version, err)
	default:
		if found := append(validation.IsDNS1123Subdomain(o.name()), validation.IsValidLabelValue(o.name())...); len(found) > 0 {
			addf("the name %s is invalid: change the Package or the Version: %s", o.name(), strings.Join(found, ", "))
		}
	}
	if len(o.Channels) == 0 {
		addf("Options has no Channels: set at least one, such as \"stable\"")
	}
	return append(errs, checkNames(o.Package, o.Channels, o.DefaultChannel)...)
}

// name returns the name of the ClusterServiceVersion.
func (o Options) name() string { return o.Package + ".v" + o.Version }

// addMetadata adds the annotations and the Dockerfile. The annotations in known remain if they have other keys.
func (o Options) addMetadata(files map[string][]byte, known map[string]string) error {
	all := maps.Clone(known)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, map[string]string{
		mediaTypeKey: mediaType, manifestsKey: "manifests/", metadataKey: "metadata/", packageKey: o.Package,
		channelsKey: strings.Join(o.Channels, ","), defaultChannelKey: cmp.Or(o.DefaultChannel, o.Channels[0]),
	})
	text, err := yaml.Marshal(annotations{all})
	if err != nil {
		return err
	}
	files[annotationsFile] = text
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		labels = append(labels, label(key, all[key])+"\n")
	}
	files[dockerFile] = []byte("FROM scratch\n\n" + strings.Join(labels, "") + "\nCOPY manifests /manifests/\nCOPY metadata /metadata/\n")
	return nil
}

// label returns the instruction for a label in a Dockerfile.
func label(key, value string) string { return fmt.Sprintf("LABEL %s=%q", key, value) }

func readAnnotations(dir string) (a annotations, err error) {
	text, err := os.ReadFile(filepath.Join(dir, annotationsFile)) //nolint:gosec // the caller chooses the folder
	if err == nil {
		err = yaml.Unmarshal(text, &a)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", annotationsFile, err)
	}
	return a, nil
}
