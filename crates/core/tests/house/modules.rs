//! The module tree of a crate, and the file that defines what a path names.
//!
//! In:    a crate's root file; the files of its modules are found as the compiler finds them.
//! Out:   the arrows between its files: which file names something that another file defines.
//! Never: what only tests build, glob imports (only tests have them), methods, and macros that are
//!        used by textual scope.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// Per file, what it names of each other file. Files are relative to the crate's folder.
pub(crate) type Arrows = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

type ModuleId = usize;

struct Module {
    file: PathBuf,
    parent: ModuleId,
    names: BTreeMap<String, Vec<Definition>>,
    items: Vec<syn::Item>,
}

/// What a name in a module stands for. A function and a module may share a name.
#[derive(Clone)]
enum Definition {
    Item,
    Module(ModuleId),
    Import(Vec<String>),
}

#[derive(Clone, PartialEq)]
enum Resolved {
    /// An item, or what is inside of it, in this file.
    Item(PathBuf),
    Module(ModuleId),
}

/// The arrows of the crate whose root is this file.
pub(crate) fn arrows(root: &Path) -> Arrows {
    let mut modules = Modules(Vec::new());
    modules.load(root, 0, root.parent().expect("a root lies in a folder"));
    let mut arrows = Arrows::new();
    for id in 0..modules.0.len() {
        let mut names = Names { modules: &modules, module: id, found: Vec::new() };
        modules.0[id].items.iter().for_each(|item| names.visit_item(item));
        let here = &modules.0[id].file;
        for path in names.found {
            for target in modules.resolve(id, &path, &mut Vec::new()) {
                if let Resolved::Item(file) = target
                    && file != *here
                {
                    let name = path.last().expect("a path has a name").clone();
                    let from = arrows.entry(here.clone()).or_default();
                    from.entry(file).or_default().insert(name);
                }
            }
        }
    }
    // A parent and a child that needs it are one thing: the child stands on the parent.
    for Module { file, parent, .. } in &modules.0 {
        let parent = &modules.0[*parent].file;
        if arrows.get(file).is_some_and(|to| to.contains_key(parent))
            && let Some(to) = arrows.get_mut(parent)
        {
            to.remove(file);
        }
    }
    arrows
}

struct Modules(Vec<Module>);

impl Modules {
    /// Loads the module of `file`; its children are in `folder`.
    fn load(&mut self, file: &Path, parent: ModuleId, folder: &Path) -> ModuleId {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        self.add(file, parent, folder, parsed.items)
    }

    fn add(
        &mut self,
        file: &Path,
        parent: ModuleId,
        folder: &Path,
        items: Vec<syn::Item>,
    ) -> ModuleId {
        let id = self.0.len();
        let names = BTreeMap::new();
        self.0.push(Module { file: file.to_owned(), parent, names, items: Vec::new() });
        for item in items.into_iter().filter(|item| !is_for_tests(attributes(item))) {
            let module = match item {
                syn::Item::Mod(module) => module,
                item => {
                    self.declare(id, &item);
                    self.0[id].items.push(item);
                    continue;
                }
            };
            let name = module.ident.to_string();
            let inner = folder.join(&name);
            let child = match module.content {
                Some((_, items)) => self.add(file, id, &inner, items),
                None => {
                    let beside = folder.join(format!("{name}.rs"));
                    let file = if beside.exists() { beside } else { inner.join("mod.rs") };
                    self.load(&file, id, &inner)
                }
            };
            self.name(id, name, Definition::Module(child));
        }
        self.load_listed(id, folder);
        id
    }

    /// Loads the modules that macros of this one declare: a path in a call of a macro whose first
    /// name is that of a file in the folder, and of no module yet.
    fn load_listed(&mut self, id: ModuleId, folder: &Path) {
        let calls = self.0[id].items.iter().filter_map(|item| match item {
            syn::Item::Macro(call) if call.ident.is_none() => Some(&call.mac),
            _ => None,
        });
        for name in calls.flat_map(paths_in).map(|path| path[0].clone()).collect::<Vec<_>>() {
            let file = folder.join(format!("{name}.rs"));
            if file.exists() && !self.0[id].names.contains_key(&name) {
                let child = self.load(&file, id, &folder.join(&name));
                self.name(id, name, Definition::Module(child));
            }
        }
    }

    fn name(&mut self, module: ModuleId, name: String, definition: Definition) {
        self.0[module].names.entry(name).or_default().push(definition);
    }

    fn declare(&mut self, module: ModuleId, item: &syn::Item) {
        let ident = match item {
            syn::Item::Const(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Fn(item) => &item.sig.ident,
            syn::Item::Static(item) => &item.ident,
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Trait(item) => &item.ident,
            syn::Item::Type(item) => &item.ident,
            syn::Item::Union(item) => &item.ident,
            syn::Item::Macro(item) if item.ident.is_some() => item.ident.as_ref().expect("named"),
            syn::Item::Use(item) => {
                for (path, alias) in imports(&item.tree) {
                    self.name(module, alias, Definition::Import(path));
                }
                return;
            }
            _ => return,
        };
        self.name(module, ident.to_string(), Definition::Item);
    }

    /// What `path` names for code in `from`. `asked` holds the questions that led here.
    fn resolve(
        &self,
        from: ModuleId,
        path: &[String],
        asked: &mut Vec<(ModuleId, String)>,
    ) -> Vec<Resolved> {
        let mut at = vec![Resolved::Module(from)];
        for (n, segment) in path.iter().enumerate() {
            let mut next = Vec::new();
            for target in at {
                match target {
                    Resolved::Item(file) => next.push(Resolved::Item(file)),
                    Resolved::Module(module) => match segment.as_str() {
                        "crate" => next.push(Resolved::Module(0)),
                        "self" => next.push(Resolved::Module(module)),
                        "super" => next.push(Resolved::Module(self.0[module].parent)),
                        name => next.extend(self.look_up(module, name, asked)),
                    },
                }
            }
            // What has something inside is rather the module than the function of its name.
            let is_inner = n + 1 < path.len();
            if is_inner && next.iter().any(|target| matches!(target, Resolved::Module(_))) {
                next.retain(|target| matches!(target, Resolved::Module(_)));
            }
            at = next;
        }
        at
    }

    fn look_up(
        &self,
        module: ModuleId,
        name: &str,
        asked: &mut Vec<(ModuleId, String)>,
    ) -> Vec<Resolved> {
        let question = (module, name.to_owned());
        if asked.contains(&question) {
            return Vec::new();
        }
        asked.push(question);
        let mut found = Vec::new();
        for definition in self.0[module].names.get(name).into_iter().flatten() {
            match definition {
                Definition::Item => found.push(Resolved::Item(self.0[module].file.clone())),
                Definition::Module(id) => found.push(Resolved::Module(*id)),
                Definition::Import(path) => found.extend(self.resolve(module, path, asked)),
            }
        }
        asked.pop();
        found
    }
}

/// Every path that a module's items name.
struct Names<'a> {
    modules: &'a Modules,
    module: ModuleId,
    found: Vec<Vec<String>>,
}

impl Visit<'_> for Names<'_> {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.found.extend(imports(&item.tree).into_iter().map(|(path, _)| path));
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.push(segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &syn::Macro) {
        self.visit_path(&item.path);
        paths_in(item).into_iter().for_each(|path| self.push(path));
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }
}

impl Names<'_> {
    /// A single name is an import's, which counts by itself, or is defined in the same file.
    fn push(&mut self, path: Vec<String>) {
        let is_ours = |name: &str| {
            matches!(name, "crate" | "self" | "super")
                || self.modules.0[self.module].names.contains_key(name)
        };
        if path.len() > 1 && is_ours(&path[0]) {
            self.found.push(path);
        }
    }
}

/// The paths of several names that a call of a macro has, as text: there one is `one :: two`.
fn paths_in(call: &syn::Macro) -> Vec<Vec<String>> {
    let text = super::source::code_of(&call.tokens.to_string()).replace(" :: ", "::");
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let paths = text.split(|c: char| !is_path(c)).filter(|path| path.contains("::"));
    paths.map(|path| path.split("::").map(str::to_owned).collect()).collect()
}

/// The paths of a `use`, and the names that they get.
fn imports(tree: &syn::UseTree) -> Vec<(Vec<String>, String)> {
    let leaf = |name: &syn::Ident, alias: &syn::Ident| (vec![name.to_string()], alias.to_string());
    match tree {
        syn::UseTree::Name(name) => vec![leaf(&name.ident, &name.ident)],
        syn::UseTree::Rename(name) => vec![leaf(&name.ident, &name.rename)],
        syn::UseTree::Glob(_) => Vec::new(),
        syn::UseTree::Group(group) => group.items.iter().flat_map(imports).collect(),
        syn::UseTree::Path(path) => {
            let head = path.ident.to_string();
            let join = |(mut rest, alias): (Vec<String>, String)| {
                // `use a::{self}` names `a`.
                let is_itself = rest == ["self"];
                let alias = if is_itself && alias == "self" { head.clone() } else { alias };
                if is_itself {
                    rest.clear();
                }
                rest.insert(0, head.clone());
                (rest, alias)
            };
            imports(&path.tree).into_iter().map(join).collect()
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let is_test = |list: &syn::MetaList| {
        let condition = list.tokens.to_string();
        condition.contains("test") && !condition.contains("not")
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && is_test(list),
        syn::Meta::Path(_) | syn::Meta::NameValue(_) => false,
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
