package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"go/format"
	goversion "go/version"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// scaffold contains the templates of the files of a project. The name of a template is the path of its file: "__" is a directory separator, and the words
// KIND, LOWER, GROUP, PLURAL and VERSION are replaced.
//
//go:embed scaffold
var scaffold embed.FS

// The templates that add a kind to a project. The others are for a new project.
var kindTemplates = []string{
	"api__VERSION__LOWER_types.go.tmpl", "api__VERSION__groupversion_info.go.tmpl", "internal__controller__LOWER_handlers.go.tmpl",
	"internal__controller__LOWER_handlers_test.go.tmpl", "config__crd__kustomization.yaml.tmpl", "config__samples__VERSION_LOWER.yaml.tmpl",
}

const libraryModule = "github.com/kopf-runtime/kopf-runtime"

// A project is what the templates need to know.
type project struct {
	folder  string
	library string // a directory with the library; empty for the released module

	Module, Name         string
	Group, Version, Kind string
	Lower, Plural        string // of the kind
	Handlers             string // the function that returns the handlers
	Go                   string // the version of Go for go.mod
	IsOldBuilder         bool   // SchemeBuilder is of controller-runtime
}

func newInit() *cobra.Command {
	p := project{}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a project with an operator, or add a kind to a kubebuilder project",
		Long: `In an empty folder, the command creates a project with the layout of kubebuilder: a kind, its handlers with tests, main.go, manifests, a Makefile and a
Dockerfile. In a project of kubebuilder, which has a file PROJECT, it adds a kind with handlers and registers it in cmd/main.go. It changes no other files there.`,
		Example: `  # A new project for the kind Database of the group example.com:
  kopf init --module example.com/databases --group example.com --kind Database && make run
  # Another kind in this project:
  kopf init --group example.com --kind Backup
  # A kind of the group shop.example.com in a project of kubebuilder with the domain example.com:
  kopf init --group shop --kind Order`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			done, err := p.create(cmd.Context())
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&p.folder, "dir", ".", "folder of the project; created if it doesn't exist")
	fs.StringVar(&p.Module, "module", "", "Go module of a new project, such as example.com/databases (default: the group and the folder)")
	fs.StringVar(&p.Group, "group", "", "API group of the kind, such as example.com; in a project of kubebuilder without the domain")
	fs.StringVar(&p.Version, "api-version", "v1", "version of the kind")
	fs.StringVar(&p.Kind, "kind", "", "the kind, such as Database")
	fs.StringVar(&p.library, "library", "", "use a local folder with the library instead of a released version")
	for _, name := range []string{"group", "kind"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a flag without a definition
		}
	}
	return cmd
}

var (
	kindPattern    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	versionPattern = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
)

// create writes the files and returns what to do next. After an error, the folder has no new files.
func (p *project) create(ctx context.Context) (next string, err error) {
	if p.folder, err = filepath.Abs(p.folder); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(p.folder, "PROJECT"))
	isNew := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		return "", err
	}
	if err := p.check(isNew); err != nil {
		return "", err
	}
	var files map[string]string
	if isNew {
		files, err = p.newProject(ctx)
	} else {
		files, err = p.newKind(string(text))
	}
	if err != nil {
		return "", err
	}
	if err := p.write(ctx, files); err != nil {
		return "", err
	}
	if isNew {
		return "Created a project. Next:\n\n  make test       # tests the handlers in memory\n  make run        # runs the operator on the cluster of kubectl, with its CRD\n" +
			"  kubectl apply -f config/samples", nil
	}
	return "Added the kind " + p.Kind + ". Next: make generate manifests, and see internal/controller/" + p.Lower + "_handlers.go", nil
}

// check checks the flags, and for a new project the folder and Go.
func (p *project) check(isNew bool) error {
	var errs []error
	if problems := validation.IsDNS1123Subdomain(p.Group); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--group %q: %s", p.Group, strings.Join(problems, "; ")))
	}
	if !kindPattern.MatchString(p.Kind) {
		errs = append(errs, fmt.Errorf("--kind %q: it must begin with an upper-case letter, and have only letters and digits", p.Kind))
	}
	if !versionPattern.MatchString(p.Version) {
		errs = append(errs, fmt.Errorf("--api-version %q: use v1, v1beta1 or v1alpha1, for example", p.Version))
	}
	if p.library != "" {
		if text, err := os.ReadFile(filepath.Join(p.library, "go.mod")); err != nil || !strings.HasPrefix(string(text), "module "+libraryModule+"\n") {
			errs = append(errs, fmt.Errorf("--library %s: the folder does not contain the module %s", p.library, libraryModule))
		}
	}
	if isNew {
		if !strings.Contains(p.Group, ".") {
			errs = append(errs, fmt.Errorf("--group %q: add a domain, as in shop.example.com, because groups without a dot belong to Kubernetes", p.Group))
		}
		if p.Module != "" {
			if err := module.CheckImportPath(p.Module); err != nil {
				errs = append(errs, fmt.Errorf("--module: %w", err))
			}
		}
		errs = append(errs, p.checkFolder())
	}
	if err := errors.Join(errs...); err != nil || !isNew {
		return err
	}
	return p.checkNames()
}

// checkNames sets the names that follow from the kind, and checks what the API server would refuse in its CRD.
func (p *project) checkNames() error {
	p.Lower = strings.ToLower(p.Kind)
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: p.Kind})
	p.Plural = plural.Resource
	p.Handlers = strings.ToLower(p.Kind[:1]) + p.Kind[1:] + "Handlers"
	if problems := validation.IsDNS1035Label(p.Plural); len(problems) > 0 {
		return fmt.Errorf("--kind %q: its plural %q is no DNS label: %s", p.Kind, p.Plural, strings.Join(problems, "; "))
	}
	if strings.HasSuffix("."+p.Group, ".k8s.io") || strings.HasSuffix("."+p.Group, ".kubernetes.io") {
		return fmt.Errorf("--group %q: choose a domain of your own, because groups below k8s.io and kubernetes.io need Kubernetes' approval", p.Group)
	}
	return nil
}

func (p *project) checkFolder() error {
	entries, err := os.ReadDir(p.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // write creates it
	}
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == ".git" || e.Name() == "LICENSE" || e.Name() == "README.md"
	})
	if len(entries) > 0 {
		return fmt.Errorf("%s contains %s, and is no project of kubebuilder, which has a file PROJECT: use an empty folder", p.folder, entries[0].Name())
	}
	return nil
}

// newProject returns the files of a new project.
func (p *project) newProject(ctx context.Context) (files map[string]string, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("the go command does not work: install Go (https://go.dev/dl): %w", err)
	}
	const oldest = "go1.26"
	if found := strings.TrimSpace(string(out)); goversion.IsValid(found) && goversion.Compare(found, oldest) < 0 {
		return nil, fmt.Errorf("the go command is %s: install %s or a newer one (https://go.dev/dl)", found, oldest)
	}
	p.Go = "1.26.0"
	p.Name = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(p.folder)), "-"), "-")
	if problems := validation.IsDNS1123Label(p.Name); len(problems) > 0 {
		p.Name = p.Plural
	}
	if p.Module == "" {
		p.Module = p.Group + "/" + p.Name
	}
	entries, err := scaffold.ReadDir("scaffold")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if files, err = p.render(names); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(p.folder, "README.md")); err == nil {
		delete(files, "README.md") // that of the user
	}
	files["PROJECT"] = p.resource(files["PROJECT"])
	files["cmd/main.go"], err = p.register(files["cmd/main.go"])
	return files, err
}

// newKind returns the new and the changed files of a project of kubebuilder.
func (p *project) newKind(text string) (files map[string]string, err error) {
	var existing struct {
		Domain     string   `json:"domain"`
		Repo       string   `json:"repo"`
		Layout     []string `json:"layout"`
		Multigroup bool     `json:"multigroup"`
		Resources  []struct{ Group, Domain, Kind string }
	}
	if err := yaml.Unmarshal([]byte(text), &existing); err != nil {
		return nil, fmt.Errorf("PROJECT: %w", err)
	}
	switch {
	case existing.Repo == "":
		return nil, errors.New("PROJECT: it has no repo, so it is not the file of kubebuilder")
	case existing.Multigroup:
		return nil, errors.New("PROJECT: multigroup is not supported: let kubebuilder create the API, and replace its controller: see docs/getting-started.md")
	}
	for _, r := range existing.Resources {
		if r.Kind == p.Kind {
			return nil, fmt.Errorf("the project already has a kind %s, in the group %s: choose another kind", p.Kind, strings.Trim(r.Group+"."+r.Domain, "."))
		}
	}
	p.Module = existing.Repo
	if existing.Domain != "" && !strings.HasSuffix("."+p.Group, "."+existing.Domain) {
		p.Group += "." + existing.Domain
	}
	if err := p.checkNames(); err != nil {
		return nil, err
	}
	groupFile := filepath.Join("api", p.Version, "groupversion_info.go")
	group, err := os.ReadFile(filepath.Join(p.folder, groupFile))
	if err == nil && !strings.Contains(string(group), `"`+p.Group+`"`) {
		return nil, fmt.Errorf("%s is for another group than %s: use another --api-version, or the same group", groupFile, p.Group)
	}
	p.IsOldBuilder = strings.Contains(string(group), "scheme.Builder{")
	if files, err = p.render(kindTemplates); err != nil {
		return nil, err
	}
	for path := range files {
		_, err := os.Stat(filepath.Join(p.folder, path))
		switch {
		case err == nil && (path == groupFile || path == "config/crd/kustomization.yaml"):
			delete(files, path)
		case err == nil:
			return nil, fmt.Errorf("%s exists already: choose another kind", path)
		}
	}
	crds := filepath.Join("config", "crd", "kustomization.yaml")
	if old, err := os.ReadFile(filepath.Join(p.folder, crds)); err == nil {
		files[crds] = insert(string(old), "# +kubebuilder:scaffold:crdkustomizeresource", "- bases/"+p.Group+"_"+p.Plural+".yaml\n")
	}
	files["PROJECT"] = p.resource(text)
	old, err := os.ReadFile(filepath.Join(p.folder, "cmd", "main.go"))
	if err != nil {
		return nil, err
	}
	files["cmd/main.go"], err = p.register(string(old))
	return files, err
}

// render executes templates, and returns the contents by the paths of the files.
func (p *project) render(names []string) (map[string]string, error) {
	files := map[string]string{}
	paths := strings.NewReplacer("__", "/", "KIND", p.Kind, "LOWER", p.Lower, "GROUP", p.Group, "PLURAL", p.Plural, "VERSION", p.Version, ".tmpl", "", "DOT", ".")
	for _, name := range names {
		t, err := template.New(name).Delims("<<", ">>").ParseFS(scaffold, "scaffold/"+name)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if err := t.Execute(&out, p); err != nil {
			return nil, err
		}
		files[paths.Replace(name)] = out.String()
	}
	return files, nil
}

// resource adds the kind to the text of PROJECT.
func (p *project) resource(text string) string {
	group, domain, _ := strings.Cut(p.Group, ".")
	entry := fmt.Sprintf("- api:\n    crdVersion: v1\n    namespaced: true\n  controller: true\n  domain: %s\n  group: %s\n  kind: %s\n  path: %s/api/%s\n  version: %s\n",
		domain, group, p.Kind, p.Module, p.Version, p.Version)
	if before, after, found := strings.Cut(text, "resources:\n"); found {
		return before + "resources:\n" + entry + after
	}
	before, after, _ := strings.Cut(text, "version:")
	return before + "resources:\n" + entry + "version:" + after
}

// register adds the kind to the text of cmd/main.go.
func (p *project) register(text string) (string, error) {
	alias := strings.ReplaceAll(strings.SplitN(p.Group, ".", 2)[0], "-", "") + p.Version
	api, controllers := fmt.Sprintf("%q", p.Module+"/api/"+p.Version), fmt.Sprintf("%q", p.Module+"/internal/controller")
	imports, scheme := "", ""
	if !strings.Contains(text, api) {
		imports, scheme = alias+" "+api+"\n\t", "utilruntime.Must("+alias+".AddToScheme(scheme))\n\t"
	}
	if !strings.Contains(text, controllers) {
		imports += controllers + "\n\t"
	}
	setup := fmt.Sprintf("if err := controller.Setup%s(mgr); err != nil {\n\t\tsetupLog.Error(err, \"Failed to add the handlers\", \"kind\", %q)\n\t\tos.Exit(1)\n\t}\n\t", p.Kind, p.Kind)
	for _, one := range []struct{ marker, lines string }{
		{"// +kubebuilder:scaffold:imports", imports}, {"// +kubebuilder:scaffold:scheme", scheme}, {"// +kubebuilder:scaffold:builder", setup},
	} {
		if !strings.Contains(text, one.marker) {
			return "", fmt.Errorf("cmd/main.go has no line %q: add it where kubebuilder has it", one.marker)
		}
		text = insert(text, one.marker, one.lines)
	}
	formatted, err := format.Source([]byte(text)) // sorts the imports
	if err != nil {
		return "", fmt.Errorf("cmd/main.go: %w", err)
	}
	return string(formatted), nil
}

// insert inserts text before a marker.
func insert(in, marker, text string) string { return strings.Replace(in, marker, text+marker, 1) }

// write writes the files, and completes go.mod. After an error, it removes the new files and restores the others.
func (p *project) write(ctx context.Context, files map[string]string) (err error) {
	before := map[string][]byte{}
	for _, path := range []string{"go.mod", "go.sum"} {
		if text, err := os.ReadFile(filepath.Join(p.folder, path)); err == nil {
			before[path] = text
		}
	}
	var created []string
	defer func() {
		if err == nil {
			return
		}
		slices.Sort(created) // folders before what they contain
		for _, path := range slices.Backward(created) {
			_ = os.Remove(path)
		}
		for path, text := range before {
			_ = os.WriteFile(filepath.Join(p.folder, path), text, 0o644) //nolint:gosec // source code
		}
	}()
	for path, text := range files {
		file := filepath.Join(p.folder, path)
		if old, err := os.ReadFile(file); err == nil {
			before[path] = old
		} else {
			created = append(created, file)
			for folder := filepath.Dir(file); folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
				if _, err := os.Stat(folder); err == nil {
					break
				}
				created = append(created, folder)
			}
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // source code
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // source code
			return err
		}
	}
	if before["go.sum"] == nil {
		created = append(created, filepath.Join(p.folder, "go.sum"))
	}
	var commands [][]string
	if p.library != "" {
		library, err := filepath.Abs(p.library)
		if err != nil {
			return err
		}
		commands = [][]string{{"mod", "edit", "-require=" + libraryModule + "@v0.0.0", "-replace=" + libraryModule + "=" + library}}
	}
	for _, args := range append(commands, []string{"mod", "tidy"}) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = p.folder
		if out, err := cmd.CombinedOutput(); err != nil {
			hint := ""
			if p.library == "" {
				hint = "If there is no released version yet, or the network is down, pass a folder with the library: --library ../kopf-runtime\n"
			}
			return fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, hint, out)
		}
	}
	return nil
}
