//! A multipart upload that invalidates the cached object when it ends.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};

use super::open_objects::OpenObjects;

/// An upload of the wrapped store.
pub(super) struct ForgettingUpload {
    pub(super) upload: Box<dyn MultipartUpload>,
    pub(super) objects: Arc<OpenObjects>,
    pub(super) location: Path,
}

#[async_trait]
impl MultipartUpload for ForgettingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let _forgotten = self.objects.forget_at_end(&self.location);
        self.upload.complete().await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.upload.abort().await
    }
}

impl fmt::Debug for ForgettingUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForgettingUpload").field("upload", &self.upload).finish_non_exhaustive()
    }
}
