package conformance

import "slices"

const (
	base       = "/apis/" + group + "/v1"
	widgets    = base + "/namespaces/{ns}/widgets"
	gadgets    = base + "/namespaces/{ns}/gadgets"
	stricts    = base + "/namespaces/{ns}/stricts"
	cogs       = base + "/cogs"
	configMaps = "/api/v1/namespaces/{ns}/configmaps"
	secrets    = "/api/v1/namespaces/{ns}/secrets"
	deploys    = "/apis/apps/v1/namespaces/{ns}/deployments"
	leases     = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
	events     = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
	coreEvents = "/api/v1/namespaces/{ns}/events"
	rules      = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"
)

func plays() []play {
	return slices.Concat(paths, creations, updates, patches, statuses, applies, deletions, selections, watches, builtins, schemas)
}

// widget returns the JSON of a widget with a name and other fields.
func widget(name, rest string) string { return custom("Widget", `"name":"`+name+`"`, rest) }

func custom(kind, meta, rest string) string {
	if rest != "" {
		rest = "," + rest
	}
	return `{"apiVersion":"` + group + `/v1","kind":"` + kind + `","metadata":{` + meta + `}` + rest + `}`
}

func configMap(meta, rest string) string {
	if rest != "" {
		rest = "," + rest
	}
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{` + meta + `}` + rest + `}`
}

var paths = []play{
	{name: "discovery of a group", steps: []step{get(base), get("/apis/" + group), get("/apis/" + group + "/v9"), get("/apis/no.example.com/v1")}},
	{name: "unknown paths", steps: []step{
		get("/no"), get(base + "/namespaces/{ns}/nothings"), get(base + "/namespaces/{ns}/nothings/a"), get("/api/v1/namespaces/{ns}/nothings"),
		get(base + "/namespaces/{ns}/cogs"), get(base + "/namespaces/{ns}/cogs/a"), get(base + "/widgets/a"),
		get(gadgets + "/a/status"), get(widgets + "/a/scale"), get("/api/v2/namespaces/{ns}/configmaps"),
	}},
	{name: "methods that are not allowed", steps: []step{
		post(configMaps+"/a", configMap(`"name":"a"`, "")),
		remove(base + "/widgets"),
	}},
	{name: "create in a missing namespace", steps: []step{
		post("/api/v1/configmaps", configMap(`"name":"a"`, "")),
		post(base+"/widgets", widget("a", "")), post(base+"/widgets", custom("Widget", `"name":"a","namespace":"{ns}"`, "")),
	}},
	{name: "response formats", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1}`)),
		get(widgets + "/a").accepting("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
		get(widgets).accepting("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
		merge(widgets+"/a", `{"spec":{"size":2}}`).accepting("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
		get(widgets + "/a").accepting("text/html"), get(widgets + "/a").accepting("*/*"), get(widgets + "/a").accepting("application/*"),
	}},
}

var creations = []play{
	{name: "create and get", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1,"deep":{"list":[1,"x",null,{"b":1.5}]}},"extra":true`)),
		get(widgets + "/a"), get(widgets), get(base + "/widgets?fieldSelector=metadata.namespace={ns}"), get(widgets + "/b"),
		post(widgets, widget("a", "")),
	}},
	{name: "create with server-set fields", steps: []step{
		post(widgets, custom("Widget", `"name":"a","uid":"mine","generation":7,"creationTimestamp":"2001-01-01T00:00:00Z",`+
			`"deletionTimestamp":"2001-01-01T00:00:00Z","deletionGracePeriodSeconds":9,"selfLink":"x"`, `"status":{"phase":"x"}`)),
		post(gadgets, custom("Gadget", `"name":"a"`, `"status":{"phase":"x"}`)),
		post(widgets, custom("Widget", `"name":"b","resourceVersion":"1"`, "")),
		get(widgets + "/b"),
	}},
	{name: "generated names", steps: []step{
		post(widgets, custom("Widget", `"generateName":"some-"`, "")),
		post(widgets, custom("Widget", `"generateName":"some-","name":"own"`, "")),
		post(widgets, custom("Widget", `"generateName":"Bad_"`, "")),
		post(widgets, custom("Widget", `"generateName":"looooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooong-"`, "")),
	}},
	{name: "bad metadata", steps: []step{
		post(widgets, custom("Widget", "", "")), post(widgets, widget("Bad_Name", "")), post(widgets, widget("a/b", "")),
		post(widgets, custom("Widget", `"name":"a","labels":{"bad label":"x"}`, "")),
		post(widgets, custom("Widget", `"name":"a","labels":{"x":"bad value"}`, "")),
		post(widgets, custom("Widget", `"name":"a","labels":{"x":1}`, "")),
		post(widgets, custom("Widget", `"name":"a","annotations":{"bad key":"x"}`, "")),
		post(widgets, custom("Widget", `"name":"a","finalizers":["no domain"]`, "")),
		post(widgets, custom("Widget", `"name":"a","finalizers":["orphan","foregroundDeletion"]`, "")),
		post(widgets, custom("Widget", `"name":"a","namespace":"other"`, "")),
		post(configMaps, configMap("", "")), post(configMaps, configMap(`"name":"Bad_Name"`, "")), post(configMaps, configMap(`"name":"a","labels":{"x":1}`, "")),
		post(rules, `{"metadata":{"name":"system:any:Name"}}`), post(rules, `{"metadata":{"name":"a/b"}}`),
	}},
	{name: "bad bodies", steps: []step{
		post(widgets, `{`), post(widgets, ``), post(widgets, `[]`), post(widgets, `{"metadata":{"name":"a"}}`),
		post(widgets, `{"apiVersion":"`+group+`/v1","metadata":{"name":"a"}}`),
		post(widgets, `{"kind":"Widget","metadata":{"name":"a"}}`),
		post(widgets, custom("Gadget", `"name":"a"`, "")),
		post(widgets, `{"apiVersion":"`+group+`/v2","kind":"Widget","metadata":{"name":"a"}}`),
		post(widgets, widget("a", "")).sentAs("text/plain"),
		post(configMaps, `{"metadata":{"name":"a"}}`), post(configMaps, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}`),
		post(configMaps, `{"apiVersion":"apps/v1","kind":"ConfigMap","metadata":{"name":"b"}}`), post(configMaps, `{`),
		post(configMaps, configMap(`"name":"b"`, `"data":{"x":1}`)), post(configMaps, configMap(`"name":"b"`, `"data":[]`)),
		post(configMaps, "metadata:\n  name: c\ndata:\n  x: \"1\"\n").sentAs("application/yaml"),
		post(configMaps, configMap(`"name":"d"`, "")).sentAs("text/plain"),
		post(configMaps, configMap(`"name":"e"`, `"unknown":1`)),
	}},
	{name: "dry creations", steps: []step{
		post(widgets+"?dryRun=All", widget("a", `"spec":{"size":1},"status":{"x":1}`)), get(widgets + "/a"),
		post(widgets+"?dryRun=Some", widget("a", "")), post(widgets, widget("a", "")), post(widgets+"?dryRun=All", widget("a", "")),
		post(configMaps+"?dryRun=All", configMap(`"generateName":"x-"`, "")), get(configMaps),
	}},
	{name: "empty metadata", steps: []step{
		post(widgets, custom("Widget", `"name":"a","labels":{},"annotations":{},"finalizers":[],"ownerReferences":[],"generateName":""`, `"spec":{}`)),
		post(widgets, custom("Widget", `"name":"b","labels":null,"annotations":{"x":""},"unknown":1`, `"spec":null`)),
		get(widgets + "/b"), merge(widgets+"/b", `{"metadata":{"labels":{"x":"y"}}}`), merge(widgets+"/b", `{"metadata":{"labels":{"x":null}}}`),
	}},
	{name: "cluster-scoped objects", steps: []step{
		post(cogs, custom("Cog", `"name":"{ns}"`, `"spec":{"size":1}`)), get(cogs + "/{ns}"), merge(cogs+"/{ns}", `{"spec":{"size":2}}`),
		post(cogs, custom("Cog", `"name":"{ns}-b","namespace":"x"`, "")), get(cogs + "?fieldSelector=metadata.name={ns}"),
		merge(cogs+"/{ns}/status", `{"status":{"x":1}}`), remove(cogs + "/{ns}"), remove(cogs + "/{ns}-b"), remove(cogs + "/{ns}-b"),
	}},
}

var updates = []play{
	{name: "put", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1}`)).named("made"),
		put(widgets+"/a", custom("Widget", `"name":"a","resourceVersion":"{rv}"`, `"spec":{"size":2}`)),
		put(widgets+"/a", custom("Widget", `"name":"a","resourceVersion":"{made.rv}"`, `"spec":{"size":3}`)),
		put(widgets+"/a", widget("a", `"spec":{"size":4}`)),
		put(widgets+"/a", custom("Widget", `"name":"b","resourceVersion":"{rv}"`, "")),
		put(widgets+"/a", custom("Widget", `"name":"a","namespace":"other","resourceVersion":"{rv}"`, "")),
		put(widgets+"/a", custom("Widget", `"name":"a","uid":"other","resourceVersion":"{rv}"`, "")),
		put(widgets+"/a", custom("Widget", `"resourceVersion":"{rv}"`, "")),
		put(widgets+"/b", widget("b", "")), put(widgets+"/b", custom("Widget", `"name":"b","uid":"x"`, "")), get(widgets + "/a"),
	}},
	{name: "put without changes", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1}`)).named("made"),
		put(widgets+"/a", custom("Widget", `"name":"a","resourceVersion":"{rv}","generation":9,"creationTimestamp":null`, `"spec":{"size":1}`)),
		put(widgets+"/a", custom("Widget", `"name":"a","resourceVersion":"{made.rv}"`, `"spec":{"size":2}`)), // no conflict, because the earlier write changed nothing
	}},
	{name: "changes that increment the generation", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1}`)), merge(widgets+"/a", `{"metadata":{"labels":{"x":"y"}}}`),
		merge(widgets+"/a", `{"other":1}`), merge(widgets+"/a", `{"spec":{"size":1}}`), merge(widgets+"/a", `{"status":{"x":1}}`),
		merge(widgets+"/a/status", `{"status":{"x":1}}`),
		post(gadgets, custom("Gadget", `"name":"a"`, "")), merge(gadgets+"/a", `{"status":{"x":1}}`), merge(gadgets+"/a", `{"metadata":{"annotations":{"x":"y"}}}`),
		merge(widgets+"/a", `{"metadata":{"generation":50}}`), get(widgets + "/a"),
	}},
	{name: "dry updates", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1}`)), put(widgets+"/a?dryRun=All", custom("Widget", `"name":"a","resourceVersion":"{rv}"`, `"spec":{"size":2}`)),
		merge(widgets+"/a?dryRun=All", `{"spec":{"size":3}}`), get(widgets + "/a"), merge(widgets+"/a?dryRun=x", `{}`),
		remove(widgets + "/a?dryRun=All"), removeWith(widgets+"/a", `{"dryRun":["All"]}`), get(widgets + "/a"),
	}},
	{name: "bad updates", steps: []step{
		post(widgets, custom("Widget", `"name":"a","finalizers":["example.com/x"]`, "")),
		merge(widgets+"/a", `{"metadata":{"uid":"other"}}`), merge(widgets+"/a", `{"metadata":{"name":"other"}}`),
		merge(widgets+"/a", `{"metadata":{"namespace":"other"}}`), merge(widgets+"/a", `{"metadata":{"resourceVersion":"1"}}`),
		merge(widgets+"/a", `{"metadata":{"resourceVersion":null}}`), merge(widgets+"/a", `{"metadata":{"resourceVersion":"{rv}","labels":{"x":"y"}}}`),
		merge(widgets+"/a", `{"metadata":{"resourceVersion":"x"}}`),
		merge(widgets+"/a", `{"metadata":{"uid":null,"creationTimestamp":null,"generation":null}}`),
		merge(widgets+"/a", `{"metadata":{"creationTimestamp":"2001-01-01T00:00:00Z"}}`),
		merge(widgets+"/a", `{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z"}}`),
		merge(widgets+"/a", `{"metadata":{"labels":{"bad label":"x"}}}`), merge(widgets+"/a", `{"metadata":{"labels":{"x":1}}}`),
		merge(widgets+"/a", `{"metadata":{"finalizers":["no domain"]}}`), merge(widgets+"/a", `{"kind":"Gadget"}`), merge(widgets+"/a", `{"apiVersion":"x/v1"}`),
		merge(widgets+"/a", `{"metadata":null}`), merge(widgets+"/a", `{"metadata":"x"}`), merge(widgets+"/a", `{"kind":null}`), get(widgets + "/a"),
	}},
}

var patches = []play{
	{name: "merge patches", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1,"tags":["x","y"],"deep":{"a":1,"b":2}}`)),
		merge(widgets+"/a", `{"spec":{"size":null,"tags":["z"],"deep":{"a":null,"c":{"d":null,"e":1}}}}`), merge(widgets+"/a", `{"spec":5}`),
		merge(widgets+"/a", `{"spec":{"x":{"y":null}}}`), merge(widgets+"/a", `{}`), merge(widgets+"/a", ``), merge(widgets+"/a", `[]`), merge(widgets+"/a", `{`),
		merge(widgets+"/a", `null`), merge(widgets+"/a", `"x"`),
		merge(widgets+"/b", `{}`), merge(widgets+"/a?force=true", `{}`), merge(widgets+"/a", `{"spec":{"size":1.0,"f":1.5,"big":9007199254740993}}`),
	}},
	{name: "JSON patches", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1,"tags":["x","y"]}`)),
		operate(widgets+"/a", `[{"op":"test","path":"/spec/size","value":1},{"op":"replace","path":"/spec/size","value":2},{"op":"add","path":"/spec/tags/-","value":"z"}]`),
		operate(widgets+"/a", `[{"op":"test","path":"/spec/size","value":1},{"op":"replace","path":"/spec/size","value":3}]`),
		operate(widgets+"/a", `[{"op":"remove","path":"/spec/none"}]`), operate(widgets+"/a", `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`),
		operate(widgets+"/a", `[{"op":"add","path":"/metadata/labels","value":{"x":"y"}},{"op":"move","from":"/spec/tags/0","path":"/spec/first"},{"op":"copy","from":"/spec/first","path":"/spec/second"}]`),
		operate(widgets+"/a", `{}`), operate(widgets+"/a", `[`), operate(widgets+"/a", `[]`), operate(widgets+"/a", `[{"op":"no","path":"/x"}]`), operate(widgets+"/b", `[]`),
		operate(widgets+"/a", `[{"op":"replace","path":"","value":5}]`), operate(widgets+"/a", `[{"op":"test","path":"/metadata/resourceVersion","value":"1"}]`),
	}},
	{name: "patch types", steps: []step{
		post(widgets, widget("a", "")), strategic(widgets+"/a", `{}`), patch(widgets+"/a", "application/json", `{}`), patch(widgets+"/a", "", `{}`),
		patch(widgets+"/a", "application/merge-patch+json; charset=utf-8", `{"spec":{"x":1}}`), strategic(widgets+"/none", `{}`),
	}},
	{name: "strategic merge patches", partial: true, steps: []step{
		post(deploys, deployment("a", `"spec":{"containers":[{"name":"one","image":"x:1"},{"name":"two","image":"y:1"}]}`)),
		strategic(deploys+"/a", `{"spec":{"template":{"spec":{"containers":[{"name":"two","image":"y:2"}]}}}}`),
		strategic(deploys+"/a", `{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"one"}]}}}}`),
		strategic(deploys+"/a", `{"metadata":{"finalizers":["example.com/a"],"labels":{"x":"y"}}}`), strategic(deploys+"/a", `{"metadata":{"finalizers":["example.com/b"]}}`),
		strategic(deploys+"/a", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/a"]}}`),
		strategic(deploys+"/a", `{"spec":{"replicas":"many"}}`), strategic(deploys+"/a", `[]`), strategic(deploys+"/a", `{"metadata":{"annotations":{"x":"y"}}}`),
		merge(deploys+"/a", `{"spec":{"replicas":"many"}}`), operate(deploys+"/a", `[{"op":"replace","path":"/spec/replicas","value":3}]`),
		merge(deploys+"/a/status", `{"status":{"replicas":2}}`), merge(deploys+"/a", `{"status":{"replicas":7}}`), get(deploys + "/a"),
	}},
}

func deployment(name, template string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name + `"},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"a"}},` +
		`"template":{"metadata":{"labels":{"app":"a"}},` + template + `}}}`
}

var statuses = []play{
	{name: "status", steps: []step{
		post(widgets, widget("a", `"spec":{"size":1}`)).named("made"),
		put(widgets+"/a/status", custom("Widget", `"name":"a","resourceVersion":"{rv}","labels":{"x":"y"},"finalizers":["example.com/x"]`, `"spec":{"size":2},"status":{"phase":"x"},"other":1`)),
		put(widgets+"/a/status", custom("Widget", `"name":"a","resourceVersion":"{made.rv}"`, `"status":{"phase":"y"}`)), put(widgets+"/a/status", widget("a", `"status":{"phase":"y"}`)),
		merge(widgets+"/a/status", `{"status":{"other":1},"spec":{"size":5},"metadata":{"labels":{"x":"y"}}}`), get(widgets + "/a/status"),
		merge(widgets+"/a", `{"status":null}`), merge(widgets+"/a/status", `{"status":null}`), merge(widgets+"/a/status?dryRun=All", `{"status":{"dry":1}}`), get(widgets + "/a"),
		operate(widgets+"/a/status", `[{"op":"add","path":"/status","value":{"x":1}}]`), merge(widgets+"/a/status", `{"metadata":{"resourceVersion":"1"},"status":{"x":2}}`),
		merge(widgets+"/a/status", `{"metadata":{"uid":"other"},"status":{"x":3}}`), merge(widgets+"/none/status", `{}`), put(widgets+"/none/status", widget("none", "")), remove(widgets + "/a/status"),
		post(widgets+"/a/status", widget("a", "")), merge(gadgets+"/a/status", `{}`), merge(widgets+"/a/status", `{"status":"x"}`),
	}},
}

var applies = []play{
	{name: "apply", steps: []step{
		apply(widgets+"/a", "me", widget("a", `"spec":{"size":1,"color":"red"}`)).named("made"), apply(widgets+"/a", "me", widget("a", `"spec":{"size":1,"color":"red"}`)),
		put(widgets+"/a", custom("Widget", `"name":"a","resourceVersion":"{made.rv}"`, `"spec":{"size":1,"color":"red","free":true}`)), // no conflict, because the earlier write changed nothing
		apply(widgets+"/a", "me", widget("a", `"spec":{"size":2}`)),                                                                    // the apply removes the color
		apply(widgets+"/a", "you", widget("a", `"spec":{"size":3}`)), force(widgets+"/a", "you", widget("a", `"spec":{"size":3}`)),
		apply(widgets+"/a", "me", widget("a", `"spec":{"size":2}`)), apply(widgets+"/a", "me", widget("a", `"spec":{"size":3}`)), apply(widgets+"/a", "me", widget("a", "")),
		get(widgets + "/a"), apply(widgets+"/a", "you", widget("a", "")), merge(widgets+"/a?fieldManager=editor", `{"spec":{"free":false,"more":1}}`),
		apply(widgets+"/a", "me", widget("a", `"spec":{"more":2}`)), apply(widgets+"/a", "me", widget("a", `"spec":{"more":1}`)), merge(widgets+"/a", `{"spec":{"more":null}}`),
		apply(widgets+"/a", "me", widget("a", "")), get(widgets + "/a"),
	}},
	{name: "apply to an object of another client", steps: []step{
		post(widgets, custom("Widget", `"name":"a","labels":{"x":"y"}`, `"spec":{"size":1,"tags":["x"]}`)), apply(widgets+"/a", "me", widget("a", `"spec":{"size":2}`)),
		apply(widgets+"/a", "me", custom("Widget", `"name":"a","labels":{"mine":"y"}`, `"spec":{"size":1}`)), apply(widgets+"/a", "me", widget("a", `"spec":{"tags":["x","y"]}`)),
		force(widgets+"/a", "me", widget("a", `"spec":{"tags":["x","y"]}`)), apply(widgets+"/a", "me", widget("a", "")), get(widgets + "/a"),
	}},
	{name: "apply of metadata", steps: []step{
		post(widgets, custom("Widget", `"name":"a","finalizers":["example.com/x"]`, "")),
		apply(widgets+"/a", "me", custom("Widget", `"name":"a","finalizers":["example.com/y"],"annotations":{"a":"b"},"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]`, "")),
		apply(widgets+"/a", "me", widget("a", "")), get(widgets + "/a"),
		apply(widgets+"/a", "me", custom("Widget", `"name":"a","resourceVersion":"{rv}","labels":{"x":"y"}`, "")), apply(widgets+"/a", "me", custom("Widget", `"name":"a","resourceVersion":"1"`, "")),
		apply(widgets+"/a", "me", custom("Widget", `"name":"a","uid":"other"`, "")),
	}},
	{name: "bad applies", steps: []step{
		patch(widgets+"/a", "application/apply-patch+yaml", widget("a", "")), apply(widgets+"/a", "me", `{`), apply(widgets+"/a", "me", `[]`), apply(widgets+"/a", "me", ``),
		apply(widgets+"/a", "me", widget("b", "")), apply(widgets+"/a", "me", `{"metadata":{"name":"a"}}`), apply(widgets+"/a", "me", custom("Gadget", `"name":"a"`, "")),
		apply(widgets+"/a", "me", custom("Widget", `"name":"a","managedFields":[{"manager":"x"}]`, "")), apply(widgets+"/a", "me", custom("Widget", `"name":"a","namespace":"other"`, "")),
		apply(widgets+"/a", "me", custom("Widget", `"name":"a","resourceVersion":"1"`, "")), apply(widgets+"/a", "me", custom("Widget", `"name":"a","uid":"x"`, "")),
		apply(widgets+"/a", "me", custom("Widget", ``, "")), get(widgets + "/a"),
		apply(widgets+"/c/status", "me", widget("c", `"status":{"x":1}`)), apply(widgets+"/Bad_", "me", widget("Bad_", "")),
	}},
	{name: "apply of the status", steps: []step{
		apply(widgets+"/a", "me", widget("a", `"spec":{"size":1},"status":{"x":1}`)), apply(widgets+"/a/status", "me", widget("a", `"spec":{"size":2},"status":{"x":1,"y":1}`)), get(widgets + "/a"),
		apply(widgets+"/a/status", "you", widget("a", `"status":{"x":2}`)), apply(widgets+"/a/status", "me", widget("a", `"status":{"x":1}`)), merge(widgets+"/a/status?fieldManager=me", `{"status":{"x":5}}`),
		apply(widgets+"/a/status", "me", widget("a", `"status":{"x":1}`)), force(widgets+"/a/status", "me", widget("a", `"status":{"x":1}`)), apply(widgets+"/a", "me", widget("a", "")), get(widgets + "/a"),
	}},
	{name: "dry apply", steps: []step{
		apply(widgets+"/a", "me&dryRun=All", widget("a", `"spec":{"size":1}`)), get(widgets + "/a"), apply(widgets+"/a", "me", widget("a", `"spec":{"size":1}`)),
		apply(widgets+"/a", "me&dryRun=All", widget("a", `"spec":{"size":2}`)), apply(widgets+"/a", "you&dryRun=All", widget("a", `"spec":{"size":2}`)), get(widgets + "/a"),
	}},
	{name: "apply of built-in kinds", partial: true, steps: []step{
		apply(deploys+"/a", "me", deployment("a", `"spec":{"containers":[{"name":"one","image":"x:1","ports":[{"containerPort":80}]}]}`)),
		apply(deploys+"/a", "you", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"two","image":"y:1"}]}}}}`),
		apply(deploys+"/a", "you", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"one","image":"x:2"}]}}}}`),
		apply(deploys+"/a", "you", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}`), // the apply removes its container
		apply(deploys+"/a", "you", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"unknown":1}}`),
		apply(deploys+"/a/status", "me", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"status":{"replicas":1,"conditions":[{"type":"Ready","status":"True"}]}}`),
		apply(deploys+"/a/status", "you", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"status":{"conditions":[{"type":"Other","status":"True"}]}}`), get(deploys + "/a"),
	}},
	{name: "apply of ConfigMaps", steps: []step{
		apply(configMaps+"/a", "me", configMap(`"name":"a","labels":{"x":"y"}`, `"data":{"a":"1","b":"2"}`)), apply(configMaps+"/a", "me", configMap(`"name":"a"`, `"data":{"a":"1"}`)),
		apply(configMaps+"/a", "you", configMap(`"name":"a"`, `"data":{"a":"2"}`)), apply(configMaps+"/a", "me", configMap(`"name":"a"`, `"data":{"a":1}`)),
		apply(configMaps+"/a", "me", configMap(`"name":"a","finalizers":["example.com/me"]`, `"data":{"a":"1"}`)), apply(configMaps+"/a", "you", configMap(`"name":"a","finalizers":["example.com/you"]`, "")),
		apply(configMaps+"/a", "me", configMap(`"name":"a"`, "")), get(configMaps + "/a"),
	}},
}

var deletions = []play{
	{name: "delete", steps: []step{
		remove(widgets + "/a"), post(widgets, widget("a", `"spec":{"size":1}`)), remove(widgets + "/a"), get(widgets + "/a"), remove(widgets + "/a"), post(widgets, widget("a", "")),
	}},
	{name: "finalizers", steps: []step{
		post(widgets, custom("Widget", `"name":"a","finalizers":["example.com/x","example.com/y"]`, `"spec":{"size":1}`)), remove(widgets + "/a"), remove(widgets + "/a"),
		post(widgets, widget("a", "")), merge(widgets+"/a", `{"spec":{"size":2}}`), merge(widgets+"/a", `{"metadata":{"finalizers":["example.com/x","example.com/z"]}}`),
		merge(widgets+"/a", `{"metadata":{"deletionTimestamp":null}}`), merge(widgets+"/a", `{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z"}}`), merge(widgets+"/a/status", `{"status":{"x":1}}`),
		merge(widgets+"/a", `{"metadata":{"finalizers":["example.com/y"]}}`), merge(widgets+"/a?dryRun=All", `{"metadata":{"finalizers":[]}}`), get(widgets + "/a"),
		merge(widgets+"/a", `{"metadata":{"finalizers":null,"labels":{"last":"one"}}}`), get(widgets + "/a"), merge(widgets+"/a", `{}`),
	}},
	{name: "apply to an object in deletion", steps: []step{
		post(widgets, custom("Widget", `"name":"a","finalizers":["example.com/x"]`, "")), remove(widgets + "/a"), apply(widgets+"/a", "me", widget("a", `"spec":{"size":1}`)),
		operate(widgets+"/a", `[{"op":"remove","path":"/metadata/finalizers"}]`), get(widgets + "/a"), apply(widgets+"/a", "me", widget("a", "")),
	}},
	{name: "preconditions", steps: []step{
		post(widgets, widget("a", "")).named("made"), removeWith(widgets+"/a", `{"preconditions":{"uid":"other"}}`), removeWith(widgets+"/a", `{"preconditions":{"resourceVersion":"1"}}`),
		merge(widgets+"/a", `{"spec":{"size":1}}`), removeWith(widgets+"/a", `{"preconditions":{"resourceVersion":"{made.rv}"}}`), removeWith(widgets+"/a", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"{uid}","resourceVersion":"{rv}"}}`),
		get(widgets + "/a"),
	}},
	{name: "propagation", steps: []step{
		post(widgets, widget("a", "")), removeWith(widgets+"/a", `{"propagationPolicy":"Foreground"}`), removeWith(widgets+"/a", `{"propagationPolicy":"Orphan"}`), removeWith(widgets+"/a", `{"propagationPolicy":"Background"}`),
		post(widgets, widget("b", "")), remove(widgets + "/b?propagationPolicy=Orphan"), merge(widgets+"/b", `{"metadata":{"finalizers":null}}`),
		post(widgets, widget("c", "")), removeWith(widgets+"/c", `{"propagationPolicy":"Wrong"}`), removeWith(widgets+"/c", `{"propagationPolicy":"Orphan","orphanDependents":true}`), removeWith(widgets+"/c", `{`),
		removeWith(widgets+"/c", `{"orphanDependents":false}`), post(widgets, widget("d", "")), removeWith(widgets+"/d", `{"propagationPolicy":"Background","gracePeriodSeconds":0}`),
		post(widgets, custom("Widget", `"name":"e","finalizers":["foregroundDeletion"]`, "")), remove(widgets + "/e"), removeWith(widgets+"/e", `{"propagationPolicy":"Background"}`),
		post(widgets, custom("Widget", `"name":"f","finalizers":["orphan","example.com/x"]`, "")), removeWith(widgets+"/f", `{"propagationPolicy":"Background"}`),
		post(widgets, custom("Widget", `"name":"g","finalizers":["example.com/x"]`, "")), removeWith(widgets+"/g", `{"orphanDependents":false}`),
	}},
	{name: "collections", steps: []step{
		post(widgets, custom("Widget", `"name":"a","labels":{"x":"1"}`, "")), post(widgets, custom("Widget", `"name":"b","labels":{"x":"1"},"finalizers":["example.com/x"]`, "")), post(widgets, custom("Widget", `"name":"c"`, "")),
		remove(widgets + "?labelSelector=x%3D1&dryRun=All"), remove(widgets + "?labelSelector=x%3D1"), get(widgets), remove(widgets), get(widgets), remove(widgets + "?labelSelector=%3D%3D"),
	}},
}

var selections = []play{
	{name: "selectors", steps: []step{
		post(widgets, custom("Widget", `"name":"a","labels":{"x":"1","y":"2"}`, "")), post(widgets, custom("Widget", `"name":"b","labels":{"x":"2"}`, "")), post(widgets, widget("c", "")),
		get(widgets + "?labelSelector=x%3D1"), get(widgets + "?labelSelector=x+in+(1,2),!y"), get(widgets + "?labelSelector=!x"), get(widgets + "?labelSelector=x"), get(widgets + "?labelSelector=x!%3D1"),
		get(widgets + "?labelSelector=%3D%3D"), get(widgets + "?fieldSelector=metadata.name%3Db"), get(widgets + "?fieldSelector=metadata.name!%3Db"), get(widgets + "?fieldSelector=spec.x%3Db"),
		get(widgets + "?fieldSelector=metadata.namespace%3D{ns}&labelSelector=x%3D2"), get(widgets + "?fieldSelector=metadata.namespace%3Dother"), get(widgets + "?fieldSelector=x"), get(configMaps + "?fieldSelector=data%3Db"),
	}},
	{name: "order of a list", steps: []step{
		post(widgets, widget("a-b", "")), post(widgets, widget("a", "")), post(widgets, widget("a.b", "")), post(widgets, widget("a0", "")), get(widgets),
	}},
	{name: "empty list", steps: []step{get(widgets), get(configMaps), get(widgets).accepting("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")}},
}

const watching = "watch=true&timeoutSeconds=1"

var watches = []play{
	{name: "watch from a version", steps: []step{
		post(widgets, widget("before", "")), get(widgets).named("start"), post(widgets, widget("a", `"spec":{"size":1}`)), merge(widgets+"/a", `{"spec":{"size":2}}`), merge(widgets+"/a", `{"spec":{"size":2}}`),
		post(widgets+"?dryRun=All", widget("dry", "")), merge(widgets+"/a/status", `{"status":{"x":1}}`), post(gadgets, custom("Gadget", `"name":"a"`, "")), remove(widgets + "/a"), remove(widgets + "/before"),
		get(widgets + "?resourceVersion={start.rv}&" + watching), get(widgets + "?watch=1&timeoutSeconds=1&resourceVersion={start.rv}"),
		get(widgets + "?resourceVersion={start.rv}&" + watching).accepting("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
	}},
	{name: "watch with initial events", steps: []step{
		post(widgets, widget("b", "")), post(widgets, widget("a", `"spec":{"size":1}`)), get(widgets + "?" + watching), get(widgets + "?resourceVersion=0&" + watching),
		get(widgets + "?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&" + watching), get(widgets + "?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Db&" + watching),
		get(configMaps + "?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&" + watching),
	}},
	{name: "watch with selectors", steps: []step{
		post(widgets, custom("Widget", `"name":"old","labels":{"x":"1"}`, "")), get(widgets).named("start"), post(widgets, custom("Widget", `"name":"a","labels":{"x":"1"}`, "")), merge(widgets+"/a", `{"spec":{"size":1}}`),
		merge(widgets+"/a", `{"metadata":{"labels":{"x":"2"}}}`), merge(widgets+"/a", `{"spec":{"size":2}}`), merge(widgets+"/a", `{"metadata":{"labels":{"x":"1"}}}`), remove(widgets + "/a"), post(widgets, widget("b", "")), remove(widgets + "/b"),
		merge(widgets+"/old", `{"metadata":{"labels":{"x":"2"}}}`), remove(widgets + "/old"),
		get(widgets + "?labelSelector=x%3D1&resourceVersion={start.rv}&" + watching), get(widgets + "?fieldSelector=metadata.name%3Db&resourceVersion={start.rv}&" + watching),
	}},
	{name: "watch of a deletion with finalizers", steps: []step{
		post(widgets, custom("Widget", `"name":"a","finalizers":["example.com/x"]`, "")).named("start"), remove(widgets + "/a"), remove(widgets + "/a"), merge(widgets+"/a", `{"metadata":{"finalizers":null,"labels":{"last":"one"}}}`),
		get(widgets + "?resourceVersion={start.rv}&" + watching),
	}},
	{name: "bad watches", steps: []step{get(widgets + "?resourceVersion=x&" + watching), get(widgets + "?labelSelector=%3D%3D&" + watching), get(widgets + "?fieldSelector=spec.x%3D1&" + watching), get(base + "/nothings?" + watching)}},
}

var builtins = []play{
	{name: "config maps", steps: []step{
		post(configMaps, configMap(`"name":"a"`, `"data":{"x":"1"},"binaryData":{"b":"AAE="},"immutable":false`)), put(configMaps+"/a", configMap(`"name":"a"`, `"data":{"x":"2"}`)), strategic(configMaps+"/a", `{"data":{"y":"1","x":null}}`),
		merge(configMaps+"/a", `{"data":{"z":1}}`), merge(configMaps+"/a", `{"unknown":1}`), get(configMaps + "/a/status"), put(configMaps+"/none", configMap(`"name":"none"`, "")), remove(configMaps + "/a"), get(configMaps),
		put(configMaps+"/b", configMap(`"name":"b","resourceVersion":"5"`, "")),
	}},
	{name: "secrets", steps: []step{
		post(secrets, `{"metadata":{"name":"a"},"stringData":{"x":"text"},"data":{"y":"AAE="}}`), merge(secrets+"/a", `{"stringData":{"x":"new"}}`), post(secrets, `{"metadata":{"name":"b"},"data":{"y":"no base 64"}}`), get(secrets),
		post(secrets, `{"metadata":{"name":"c"},"type":"example.com/c"}`), get(secrets + "?fieldSelector=type%3Dexample.com/c"), get(secrets + "?fieldSelector=type!%3DOpaque"), get(secrets + "?fieldSelector=data%3Dx"),
	}},
	{name: "leases", steps: []step{
		post(leases, `{"metadata":{"name":"a"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"2001-01-01T00:00:00.5Z"}}`), put(leases+"/a", `{"metadata":{"name":"a"},"spec":{"holderIdentity":"you"}}`),
		put(leases+"/a", `{"metadata":{"name":"a","resourceVersion":"{rv}"},"spec":{"holderIdentity":"you"}}`), put(leases+"/b", `{"metadata":{"name":"b"},"spec":{"holderIdentity":"you"}}`), get(leases),
	}},
	{name: "events", partial: true, steps: []step{
		post(events, `{"metadata":{"name":"a","namespace":"{ns}"},"eventTime":"2001-01-01T00:00:00.000000Z","reportingController":"example.com/x","reportingInstance":"x","action":"Do","reason":"Why","type":"Normal","regarding":{"kind":"Pod","name":"p","namespace":"{ns}","apiVersion":"v1"}}`),
		merge(events+"/a", `{"series":{"count":2,"lastObservedTime":"2001-01-01T00:01:00.000000Z"}}`), get(events),
		post(coreEvents, `{"metadata":{"name":"b"},"involvedObject":{"kind":"Pod","name":"p","namespace":"{ns}"},"reason":"Why","message":"x","count":1,"type":"Normal"}`), strategic(coreEvents+"/b", `{"count":2}`),
	}},
	{name: "events in both groups", partial: true, steps: []step{
		post(events, `{"metadata":{"name":"a","namespace":"{ns}"},"eventTime":"2001-01-01T00:00:00.000000Z","reportingController":"example.com/x","reportingInstance":"x","action":"Do","reason":"Why","note":"This","type":"Normal","regarding":{"kind":"Pod","name":"p","namespace":"{ns}","apiVersion":"v1"}}`),
		get(coreEvents + "/a"), get(coreEvents + "?fieldSelector=involvedObject.name%3Dp"), merge(events+"/a", `{"series":{"count":2,"lastObservedTime":"2001-01-01T00:01:00.000000Z"}}`), get(coreEvents + "/a"),
		post(coreEvents, `{"metadata":{"name":"b"},"involvedObject":{"kind":"Pod","name":"p","namespace":"{ns}"},"reason":"Why","message":"x","count":1,"type":"Normal"}`), get(events + "/b"), remove(events + "/b"), get(coreEvents + "/b"), get(events + "?fieldSelector=regarding.kind%3DPod"),
	}},
	{name: "quantities", partial: true, steps: []step{
		post(deploys, deployment("a", `"spec":{"containers":[{"name":"one","image":"x:1","resources":{"limits":{"cpu":"1000m","memory":"1024Mi"}}}]}`)), merge(deploys+"/a", `{"metadata":{"annotations":{"x":"y"}}}`),
		merge(deploys+"/a", `{"spec":{"replicas":1}}`), merge(deploys+"/a", `{"spec":{"replicas":2}}`), remove(deploys + "/a"), get(deploys + "/a"),
	}},
	{name: "namespaces", partial: true, steps: []step{
		post("/api/v1/namespaces", `{"metadata":{"name":"{ns}-a"}}`), get("/api/v1/namespaces/{ns}-a"), merge("/api/v1/namespaces/{ns}-a", `{"metadata":{"labels":{"x":"y"}}}`), post("/api/v1/namespaces", `{"metadata":{"name":"bad.name"}}`), get("/api/v1/namespaces/{ns}-none"),
	}},
	{name: "service accounts", steps: []step{
		post("/api/v1/namespaces/{ns}/serviceaccounts", `{"metadata":{"name":"a"}}`), remove("/api/v1/namespaces/{ns}/serviceaccounts/a"), remove("/api/v1/namespaces/{ns}/serviceaccounts/a"),
	}},
	{name: "roles", steps: []step{
		put(rules+"/a", `{"metadata":{"name":"a"},"rules":[]}`), put(rules+"/a", `{"metadata":{"name":"a"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}`), remove(rules + "/a"),
	}},
}

func strictOne(name, spec string) string {
	return custom("Strict", `"name":"`+name+`"`, `"spec":{`+spec+`}`)
}

var schemas = []play{
	{name: "pruning and defaults", steps: []step{
		post(stricts, custom("Strict", `"name":"a"`, `"spec":{"size":1,"unknown":1,"free":{"x":{"y":1},"known":{"a":"b","c":"d"}},"texts":{"a":"b"},"parts":[{"name":"one","x":1}]},"unknown":{},"status":{"phase":"New"}`)),
		merge(stricts+"/a", `{"spec":{"more":1,"color":null,"always":null,"perhaps":null}}`), operate(stricts+"/a", `[{"op":"add","path":"/spec/perhaps","value":null},{"op":"add","path":"/spec/name","value":null}]`),
		operate(stricts+"/a", `[{"op":"add","path":"/spec/deep","value":{}},{"op":"add","path":"/spec/unknown","value":1}]`), put(stricts+"/a", custom("Strict", `"name":"a","resourceVersion":"{rv}"`, `"spec":{"size":2,"x":1}`)), get(stricts),
	}},
	{name: "nulls", steps: []step{
		post(stricts, strictOne("a", `"size":1,"perhaps":"x"`)).named("made"), operate(stricts+"/a", `[{"op":"add","path":"/spec/both","value":null}]`), merge(stricts+"/a", `{"spec":{"size":2}}`),
		merge(stricts+"/a", `{"spec":{"both":null}}`), operate(stricts+"/a", `[{"op":"add","path":"/spec/always","value":null},{"op":"add","path":"/spec/name","value":null},{"op":"add","path":"/spec/unknown","value":null}]`),
		operate(stricts+"/a", `[{"op":"add","path":"/spec/free","value":{"a":null,"b":{"c":null},"d":[null,{"e":null}]}},{"op":"add","path":"/spec/texts","value":{"a":null}}]`), operate(stricts+"/a", `[{"op":"add","path":"/spec","value":null}]`),
		operate(stricts+"/a", `[{"op":"add","path":"/spec/parts","value":[{"name":"one","note":null,"count":null}]}]`), operate(stricts+"/a", `[{"op":"add","path":"/spec/deep","value":null}]`),
		operate(stricts+"/a/status", `[{"op":"add","path":"/status","value":{"phase":null,"count":1}}]`), operate(stricts+"/a/status", `[{"op":"add","path":"/status","value":null}]`),
		operate(stricts+"/a", `[{"op":"add","path":"/metadata/labels","value":{"x":null}}]`), operate(stricts+"/a", `[{"op":"add","path":"/metadata/annotations","value":null}]`),
		operate(stricts+"/a", `[{"op":"add","path":"/spec/both","value":null},{"op":"add","path":"/metadata/uid","value":"{uid}"},{"op":"add","path":"/metadata/resourceVersion","value":"{rv}"}]`),
		operate(stricts+"/a", `[{"op":"add","path":"/spec/perhaps","value":null},{"op":"add","path":"/metadata/uid","value":"{uid}"},{"op":"add","path":"/metadata/resourceVersion","value":"{made.rv}"}]`),
		operate(stricts+"/a", `[{"op":"add","path":"/spec/perhaps","value":null},{"op":"add","path":"/metadata/uid","value":"another"}]`),
		operate(stricts+"/a", `[{"op":"remove","path":"/spec/none"}]`), operate(stricts+"/a", `[{"op":"add","path":"/spec/none/a","value":null}]`), get(stricts + "/a"),
		post(widgets, widget("a", `"spec":{"size":1}`)), operate(widgets+"/a", `[{"op":"add","path":"/spec/a","value":null},{"op":"add","path":"/spec/b","value":{"c":null}}]`), merge(widgets+"/a", `{"spec":{"b":{"d":1}}}`), get(widgets + "/a"),
	}},
	{name: "apply of nulls", steps: []step{
		apply(stricts+"/a", "me", strictOne("a", `"size":1,"both":null,"perhaps":null,"always":null,"name":null,"free":{"a":null,"b":{"c":null}}`)), apply(stricts+"/a", "me", strictOne("a", `"size":1,"both":null,"perhaps":null,"always":null,"name":null,"free":{"a":null,"b":{"c":null}}`)),
		get(stricts + "/a"), merge(stricts+"/a?fieldManager=editor", `{"spec":{"both":false}}`), apply(stricts+"/a", "me", strictOne("a", `"size":1,"both":null`)), force(stricts+"/a", "me", strictOne("a", `"size":1,"both":null`)), apply(stricts+"/a", "me", strictOne("a", `"size":1`)),
		get(stricts + "/a"), apply(widgets+"/a", "me", widget("a", `"spec":{"size":1,"x":null,"y":{"z":null}}`)), apply(widgets+"/a", "me", widget("a", `"spec":{"size":1,"y":{"z":null}}`)), get(widgets + "/a"),
	}},
	{name: "validation", steps: []step{
		post(stricts, strictOne("a", "")), post(stricts, custom("Strict", `"name":"a"`, "")), post(stricts, strictOne("a", `"size":0`)), post(stricts, strictOne("a", `"size":11,"color":"blue","name":"TOO LONG"`)),
		post(stricts, strictOne("a", `"size":"1"`)), post(stricts, strictOne("a", `"size":1.5`)), post(stricts, strictOne("a", `"size":1,"port":true`)), post(stricts, strictOne("a", `"size":1,"port":80`)), post(stricts, strictOne("b", `"size":1,"port":"http"`)),
		post(stricts, strictOne("c", `"size":1,"tags":["a","a"]`)), post(stricts, strictOne("c", `"size":1,"tags":["a","b","c","d"]`)), post(stricts, strictOne("c", `"size":1,"parts":[{"name":"a"},{"name":"a"}]`)), post(stricts, strictOne("c", `"size":1,"parts":[{"count":1}]`)),
		post(stricts, strictOne("c", `"size":1,"texts":{"a":1}`)), post(stricts, strictOne("c", `"size":1,"tags":{}`)), post(stricts, strictOne("c", `"size":1,"date":"yesterday"`)), post(stricts, strictOne("c", `"size":1,"ratio":2,"perhaps":null,"date":"2001-01-01T00:00:00Z"`)),
		post(stricts, custom("Strict", `"name":"d","labels":{"bad label":"x"}`, `"spec":{"size":0}`)), merge(stricts+"/c", `{"spec":{"size":50}}`), merge(stricts+"/c", `{"spec":null}`), merge(stricts+"/c", `{"spec":"x"}`),
		merge(stricts+"/c/status", `{"status":{"phase":"No","count":"x"}}`), merge(stricts+"/c/status", `{"status":{"phase":"Old","unknown":1}}`), apply(stricts+"/c", "me", strictOne("c", `"size":50`)), force(stricts+"/c", "me", strictOne("c", `"size":50`)),
	}},
	{name: "apply with a schema", steps: []step{
		apply(stricts+"/a", "me", strictOne("a", `"size":1,"tags":["x"],"parts":[{"name":"one","count":1}]`)), apply(stricts+"/a", "you", custom("Strict", `"name":"a"`, `"spec":{"tags":["y"],"parts":[{"name":"two"}]}`)),
		apply(stricts+"/a", "you", custom("Strict", `"name":"a"`, `"spec":{"parts":[{"name":"one","count":2}]}`)), apply(stricts+"/a", "you", custom("Strict", `"name":"a"`, `"spec":{"parts":[{"name":"one","note":"x"}]}`)),
		apply(stricts+"/a", "me", strictOne("a", `"size":1,"unknown":1`)), apply(stricts+"/a", "me", strictOne("a", `"size":"x"`)), apply(stricts+"/a", "me", strictOne("a", `"size":2`)), apply(stricts+"/a", "you", custom("Strict", `"name":"a"`, "")),
		apply(stricts+"/a/status", "me", custom("Strict", `"name":"a"`, `"status":{"conditions":[{"type":"A","status":"True"}]}`)), apply(stricts+"/a/status", "you", custom("Strict", `"name":"a"`, `"status":{"conditions":[{"type":"B","status":"True"}]}`)),
		apply(stricts+"/a/status", "me", custom("Strict", `"name":"a"`, `"status":{"conditions":[{"type":"B","status":"False"}]}`)), apply(stricts+"/a/status", "me", custom("Strict", `"name":"a"`, `"status":{"conditions":[]}`)), get(stricts + "/a"),
		post(stricts, strictOne("b", `"size":1`)), apply(stricts+"/b", "me", custom("Strict", `"name":"b"`, `"spec":{"color":"green"}`)), apply(stricts+"/b", "me", custom("Strict", `"name":"b"`, `"spec":{"color":"red"}`)), apply(stricts+"/b", "me", custom("Strict", `"name":"b"`, "")),
	}},
}
